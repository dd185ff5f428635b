"""Our own kernels, as PTX: the driver compiles them when they are loaded.

``bench_empty`` does nothing. ``bench_gate`` holds the stream until the word in pinned host memory
has reached a generation, or until its time is over: then it says so in the next word. It opens by
itself whatever the host does. ``bench_clock`` counts cycles and nanoseconds from one tick of the
global timer to a later one. ``bench_read`` reads a buffer, 16 bytes at a time. ``bench_look`` keeps
single bytes of a buffer, one a thread, and ``bench_put`` overwrites them.
"""

from __future__ import annotations

NAMES = ("bench_empty", "bench_gate", "bench_clock", "bench_read", "bench_look", "bench_put")

PTX = b"""
.version 6.3
.target sm_70
.address_size 64

.visible .entry bench_empty() { ret; }

.visible .entry bench_gate(.param .u64 word, .param .u32 generation, .param .u64 limit_ns)
{
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %d<6>;
  ld.param.u64 %d1, [word];
  ld.param.u32 %r1, [generation];
  ld.param.u64 %d2, [limit_ns];
  mov.u64 %d3, %globaltimer;
WAIT:
  ld.volatile.global.u32 %r2, [%d1];
  sub.s32 %r3, %r2, %r1;
  setp.ge.s32 %p1, %r3, 0;
  @%p1 bra OPEN;
  nanosleep.u32 100;
  mov.u64 %d4, %globaltimer;
  sub.u64 %d5, %d4, %d3;
  setp.lt.u64 %p2, %d5, %d2;
  @%p2 bra WAIT;
  st.volatile.global.u32 [%d1+4], %r1;
OPEN:
  ret;
}

.visible .entry bench_clock(.param .u64 result, .param .u64 duration_ns)
{
  .reg .pred %p<4>;
  .reg .b64 %d<12>;
  ld.param.u64 %d1, [result];
  ld.param.u64 %d2, [duration_ns];
  mov.u64 %d3, %globaltimer;
FIRST:
  mov.u64 %d4, %globaltimer;
  setp.eq.u64 %p1, %d4, %d3;
  @%p1 bra FIRST;
  mov.u64 %d5, %clock64;
  add.u64 %d6, %d4, %d2;
MIDDLE:
  mov.u64 %d7, %globaltimer;
  setp.lt.u64 %p2, %d7, %d6;
  @%p2 bra MIDDLE;
LAST:
  mov.u64 %d8, %globaltimer;
  setp.eq.u64 %p3, %d8, %d7;
  @%p3 bra LAST;
  mov.u64 %d9, %clock64;
  sub.u64 %d10, %d9, %d5;
  sub.u64 %d11, %d8, %d4;
  st.global.u64 [%d1], %d10;
  st.global.u64 [%d1+8], %d11;
  ret;
}

.visible .entry bench_read(.param .u64 buffer, .param .u64 vectors, .param .u64 result)
{
  .reg .pred %p<3>;
  .reg .b32 %r<12>;
  .reg .b64 %d<8>;
  ld.param.u64 %d1, [buffer];
  ld.param.u64 %d2, [vectors];
  ld.param.u64 %d3, [result];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mov.u32 %r5, %nctaid.x;
  mul.lo.u32 %r6, %r5, %r2;
  cvt.u64.u32 %d4, %r4;
  cvt.u64.u32 %d5, %r6;
  mov.u32 %r11, 0;
NEXT:
  setp.ge.u64 %p1, %d4, %d2;
  @%p1 bra DONE;
  shl.b64 %d6, %d4, 4;
  add.u64 %d7, %d1, %d6;
  ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%d7];
  or.b32 %r7, %r7, %r8;
  or.b32 %r9, %r9, %r10;
  or.b32 %r11, %r11, %r7;
  or.b32 %r11, %r11, %r9;
  add.u64 %d4, %d4, %d5;
  bra NEXT;
DONE:
  setp.ne.u32 %p2, %r11, 0x9e3779b9;
  @%p2 ret;
  st.global.u32 [%d3], %r11;
  ret;
}

.visible .entry bench_look(.param .u64 base, .param .u64 offsets, .param .u64 kept)
{
  .reg .b16 %h<2>;
  .reg .b32 %r<2>;
  .reg .b64 %d<10>;
  ld.param.u64 %d1, [base];
  ld.param.u64 %d2, [offsets];
  ld.param.u64 %d3, [kept];
  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %d4, %r1;
  shl.b64 %d5, %d4, 3;
  add.u64 %d6, %d2, %d5;
  ld.global.u64 %d7, [%d6];
  add.u64 %d8, %d1, %d7;
  add.u64 %d9, %d3, %d4;
  ld.global.u8 %h1, [%d8];
  st.global.u8 [%d9], %h1;
  ret;
}

.visible .entry bench_put(.param .u64 base, .param .u64 offsets, .param .u64 values)
{
  .reg .b16 %h<2>;
  .reg .b32 %r<2>;
  .reg .b64 %d<10>;
  ld.param.u64 %d1, [base];
  ld.param.u64 %d2, [offsets];
  ld.param.u64 %d3, [values];
  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %d4, %r1;
  shl.b64 %d5, %d4, 3;
  add.u64 %d6, %d2, %d5;
  ld.global.u64 %d7, [%d6];
  add.u64 %d8, %d1, %d7;
  add.u64 %d9, %d3, %d4;
  ld.global.u8 %h1, [%d9];
  st.global.u8 [%d8], %h1;
  ret;
}
"""
