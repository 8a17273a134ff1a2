// Work-groups of 256 work-items that share out the places of an operator: place `group`, then every `groups`-th one.
// A kernel's body is a function of (descriptor, group, groups); the stand-alone kernel and the walker (kernels/walk) are
// wrappers around it. The descriptor lies in local memory, where it takes no registers.
//
// PTX   whether the compiler is NVIDIA's and takes its assembly (0 1)
#ifndef CODL_GROUP_H
#define CODL_GROUP_H

#ifndef PTX
#define PTX 0
#endif
#define GROUP 256
// Loops over the registers of a work-item.
#if PTX
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif
#define BY_GROUP __attribute__((reqd_work_group_size(GROUP, 1, 1)))

// Bodies are in line: what their pointers are aligned to is known there.
#define BODY static inline __attribute__((always_inline)) void

// What a group wrote to global memory before it is seen by the whole device, and what others wrote is seen after it.
// One work-item does it for its group, between two barriers of it.
#if PTX
#define DEVICE_FENCE asm volatile("fence.acq_rel.gpu;" ::: "memory");
#elif defined(__OPENCL_C_VERSION__) && __OPENCL_C_VERSION__ >= 200 && defined(memory_scope_device)
#define DEVICE_FENCE atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device);
#else
#define DEVICE_FENCE mem_fence(CLK_GLOBAL_MEM_FENCE);
#endif
#define GROUP_BARRIER barrier(CLK_LOCAL_MEM_FENCE);
#define GROUP_BARRIER_GLOBAL barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);

// A tensor operand inside a descriptor: which buffer, and as common/tensor.h the offset and the four strides.
typedef struct {
    int buffer, offset, n, h, w, c;
} place_t;
#define PLACE(name) {0, name##_offset, name##_n, name##_h, name##_w, name##_c}
#define INDEX(place, n_, h_, w_, c_) \
    ((place).offset + (n_) * (place).n + (h_) * (place).h + (w_) * (place).w + (c_) * (place).c)
// Whether four neighbouring channels of a place may be moved at once.
#define IS_ALIGNED(place) \
    ((place).c == 1 && (((place).offset | (place).n | (place).h | (place).w) & 3) == 0)

// Four floats at a pointer that is a multiple of 16 bytes: compilers take vload4 for four loads.
#define GLOBAL_4(pointer) (*(__global const float4 *)(pointer))
#define STORE_4(value, pointer) (*(__global float4 *)(pointer) = (value))
#define LOCAL_4(pointer) (*(__local float4 *)(pointer))

// Asynchronous copies of 16 or 4 bytes to local memory, zeros where `ok` is false; plain ones without PTX.
#if PTX
#define COPY_16(dst, src, ok)                                                                           \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"l"(dst), "l"(src), "r"((ok) ? 16 : 0) \
                 : "memory");
#define COPY_4(dst, src, ok)                                                                          \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"l"(dst), "l"(src), "r"((ok) ? 4 : 0) \
                 : "memory");
#define COPY_WEIGHTS(dst, src) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"l"(dst), "l"(src) : "memory");
#define COMMIT_COPIES asm volatile("cp.async.commit_group;" ::: "memory");
#define AWAIT_COPIES(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#else
#define COPY_16(dst, src, ok) LOCAL_4(dst) = (ok) ? GLOBAL_4(src) : (float4)(0.0f);
#define COPY_4(dst, src, ok) *(dst) = (ok) ? *(src) : 0.0f;
#define COPY_WEIGHTS(dst, src) LOCAL_4(dst) = GLOBAL_4(src);
#define COMMIT_COPIES
#define AWAIT_COPIES(left)
#endif

#endif
