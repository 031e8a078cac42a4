// The least that ranks of Python have to do for an allreduce of 8 bytes: each writes a cache line and reads everybody's.
// Nothing is checked, recorded or timed, nobody else can fail, and all ranks are on one host. See ../floor.py.
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

struct line {
    _Atomic uint64_t call;
    float data[2];
    char rest[112];  // so that no two are fetched together
};

static struct line *lines;
static int rank, ranks, looks;
static uint64_t call;

static PyObject *join(PyObject *self, PyObject *arguments) {
    unsigned long long address;
    if (!PyArg_ParseTuple(arguments, "Kiii", &address, &rank, &ranks, &looks)) return NULL;
    lines = (struct line *)(uintptr_t)address;
    Py_RETURN_NONE;
}

static PyObject *allreduce(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    Py_buffer x;
    if (count != 1 || PyObject_GetBuffer(arguments[0], &x, PyBUF_WRITABLE)) return NULL;
    float *const data = x.buf;
    struct line *const now = lines + ranks * (++call % 2);
    now[rank].data[0] = data[0];
    now[rank].data[1] = data[1];
    atomic_store_explicit(&now[rank].call, call, memory_order_release);
    float sum[2] = {0, 0};
    for (int peer = 0; peer < ranks; ++peer) {
        for (int look = 0; atomic_load_explicit(&now[peer].call, memory_order_acquire) < call; ++look)
            if (look >= looks) sched_yield();
        sum[0] += now[peer].data[0];
        sum[1] += now[peer].data[1];
    }
    data[0] = sum[0];
    data[1] = sum[1];
    PyBuffer_Release(&x);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"join", join, METH_VARARGS, NULL},
                                {"allreduce", (PyCFunction)(void *)allreduce, METH_FASTCALL, NULL},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "floor", NULL, -1, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_floor(void) { return PyModule_Create(&module); }
