#pragma once

#include <nanobind/nanobind.h>

namespace unisono::bind {

void calls(nanobind::module_& module);
void engine(nanobind::module_& module);
void errors(nanobind::module_& module);
void executor(nanobind::module_& module);
void method(nanobind::module_& module);
void other_process(nanobind::module_& module);
void plans(nanobind::module_& module);
void recorder(nanobind::module_& module);
void reductions(nanobind::module_& module);
void server(nanobind::module_& module);
void server_client(nanobind::module_& module);
void shortcuts(nanobind::module_& module);
void simulate(nanobind::module_& module);

}  // namespace unisono::bind
