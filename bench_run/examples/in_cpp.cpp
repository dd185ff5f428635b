// A kernel in C++: kernel@in_cpp.cpp builds it with c++ and calls it.
#include "bench_kernel.h"

// c [m, n] = a [m, k] b [k, n], in float, with any strides.
BENCH_SUPPORTS(matmul) {
  return in[0]->ndim == 2 && in[0]->dtype.code == 2 && in[0]->dtype.bits == 32;
}

BENCH_KERNEL(matmul) {
  const DLTensor *a = in[0], *b = in[1], *c = out[0];
  const float *x = (const float *)a->data, *y = (const float *)b->data;
  float *z = (float *)c->data;
  for (int64_t i = 0; i < c->shape[0]; ++i) {
    for (int64_t j = 0; j < c->shape[1]; ++j) z[i * c->strides[0] + j * c->strides[1]] = 0;
    for (int64_t l = 0; l < a->shape[1]; ++l) {
      const float left = x[i * a->strides[0] + l * a->strides[1]];
      for (int64_t j = 0; j < c->shape[1]; ++j)
        z[i * c->strides[0] + j * c->strides[1]] += left * y[l * b->strides[0] + j * b->strides[1]];
    }
  }
  return 0;
}
