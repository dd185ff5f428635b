// A kernel in CUDA: kernel@in_cuda.cu builds it with nvcc and launches it on the stream of the run.
#include "bench_kernel.h"

__global__ void relu_kernel(const float *x, float *y, int64_t count) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += step)
    y[i] = x[i] > 0 ? x[i] : 0;
}

// In float, elements in the order of memory.
BENCH_SUPPORTS(relu) {
  return in[0]->dtype.code == 2 && in[0]->dtype.bits == 32;
}

BENCH_KERNEL(relu) {
  int64_t count = 1;
  for (int i = 0; i < out[0]->ndim; ++i) count *= out[0]->shape[i];
  const float *x = (const float *)in[0]->data;
  relu_kernel<<<1024, 256, 0, (cudaStream_t)stream>>>(x, (float *)out[0]->data, count);
  return cudaGetLastError();
}
