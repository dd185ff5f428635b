/* What a compiled kernel of bench-run receives: tensors as DLPack describes them.
 *
 *   #include "bench_kernel.h"
 *   BENCH_KERNEL(add) {
 *     const float *a = (const float *)in[0]->data, *b = (const float *)in[1]->data;
 *     ...
 *     return 0;
 *   }
 *
 * in[0 .. inputs-1], out[0 .. outputs-1]: in the graph's order (bench-run describe GRAPH).
 * stream: the cudaStream_t or hipStream_t of the run; NULL on a processor.
 * The result is 0, or an error code. It must not wait for the device.
 *
 * Optional, before it: size_t add_workspace(in, inputs, out, outputs) says how many bytes workspace
 * must have; int add_supports(in, inputs, out, outputs) is 0 for graphs that it does not run. In
 * both, data is NULL.
 */
#ifndef BENCH_KERNEL_H
#define BENCH_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef DLPACK_VERSION
#elif defined(DLPACK_DLPACK_H_)
#else
typedef struct {
  int32_t device_type; /* 1: processor, 2: CUDA, 10: ROCm */
  int32_t device_id;
} DLDevice;

typedef struct {
  uint8_t code; /* 0: signed, 1: unsigned, 2: float, 4: bfloat16, 6: truth value, 10..14: fp8 */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements */
  uint64_t byte_offset; /* 0 */
} DLTensor;
#endif

#ifdef __cplusplus
#define BENCH_C extern "C"
#else
#define BENCH_C
#endif

#define BENCH_TENSORS const DLTensor *const *in, int inputs, DLTensor *const *out, int outputs
#define BENCH_KERNEL(name) \
  BENCH_C int name(BENCH_TENSORS, void *workspace, size_t workspace_bytes, void *stream)
#define BENCH_WORKSPACE(name) BENCH_C size_t name##_workspace(BENCH_TENSORS)
#define BENCH_SUPPORTS(name) BENCH_C int name##_supports(BENCH_TENSORS)

#endif
