// The beginning of every kernel's source: types, conversions, layouts. No header is included.

typedef float f32;
typedef double f64;
typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

// Storage types: widen() before computing, narrow() afterwards.
struct bf16 { u16 bits; };
struct f16 { u16 bits; };
struct boolean { u8 value; };

#ifdef __CUDACC__
#define DEVICE static __device__ __forceinline__
// Whether the GPU has instructions for bf16, for pairs of 16-bit values, and for extremes that propagate NaN.
#define BRAIN_UNITS (__CUDA_ARCH__ >= 800)
// Whether the GPU has units for products of small 16-bit matrices.
#define TENSOR_UNITS (__CUDA_ARCH__ >= 800)
DEVICE f32 widen(f16 x) { f32 y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
DEVICE f16 half_of(f32 x) { f16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
// 2^x and 1/x to 22 bits in one instruction each, for results that are rounded to 16 bits; denormal numbers become 0.
DEVICE f32 quick_exp2(f32 x) { f32 y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE f32 quick_reciprocal(f32 x) { f32 y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
#else
#define BRAIN_UNITS 0
#define TENSOR_UNITS 1
DEVICE f32 widen(f16 x) { return emulator_bits<_Float16>(x.bits); }
DEVICE f16 half_of(f32 x) { f16 y; y.bits = emulator_bits<u16>((_Float16) x); return y; }
DEVICE f32 quick_exp2(f32 x) { return exp2(x); }
DEVICE f32 quick_reciprocal(f32 x) { return 1 / x; }
#endif
DEVICE u32 bits_of(f32 x) { return __float_as_uint(x); }
DEVICE f32 float_of(u32 x) { return __uint_as_float(x); }
DEVICE u64 bits_of(f64 x) { return (u64) __double_as_longlong(x); }
DEVICE f64 double_of(u64 x) { return __longlong_as_double((i64) x); }

DEVICE f32 widen(f32 x) { return x; }
DEVICE f64 widen(f64 x) { return x; }
DEVICE f32 widen(bf16 x) { return float_of((u32) x.bits << 16); }
DEVICE i64 widen(i64 x) { return x; }
DEVICE i64 widen(i32 x) { return x; }
DEVICE i64 widen(i8 x) { return x; }
DEVICE i64 widen(u8 x) { return x; }
DEVICE i64 widen(boolean x) { return x.value != 0; }

DEVICE bool is_nan(f32 x) { return x != x; }
DEVICE bool is_nan(f64 x) { return x != x; }
DEVICE bool is_nan(i64 x) { return false; }
DEVICE bool is_inf(f32 x) { return (bits_of(x) & 0x7fffffffu) == 0x7f800000u; }
DEVICE bool is_inf(f64 x) { return (bits_of(x) & 0x7fffffffffffffffull) == 0x7ff0000000000000ull; }
DEVICE bool is_inf(i64 x) { return false; }

// Rounds to nearest, ties to even; every NaN becomes the same one.
#if BRAIN_UNITS
DEVICE bf16 brain_of(f32 x) { bf16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y; }
#else
DEVICE bf16 brain_of(f32 x) {
    u32 bits = bits_of(x);
    bf16 y;
    y.bits = (u16) (is_nan(x) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    return y;
}
#endif

// Narrows with an odd last bit if inexact, so that a further rounding gives the same as a single one.
DEVICE f32 to_odd(f64 x) {
    f32 nearest = (f32) x;
    if ((f64) nearest == x || is_nan(x)) {
        return nearest;
    }
    u32 bits = bits_of(nearest);
    f64 magnitude = x < 0 ? -x : x;
    f64 rounded = nearest < 0 ? -(f64) nearest : (f64) nearest;
    return float_of((rounded > magnitude ? bits - 1 : bits) | 1);
}
// Widens a number of more bits than f64 has to one that rounds to the same bf16: an inexact one gets an odd last bit.
DEVICE f64 to_odd(i64 x) {
    i64 lost = x & 0x7ff;
    bool exact = lost == 0 || x > -(1ll << 53) && x < 1ll << 53;
    return (f64) (exact ? x : (x - lost) | 0x800);
}

// Truncates towards zero; values out of range become the nearest end of the range, NaN becomes 0.
DEVICE i64 integer_of(f64 x) {
    return is_nan(x) ? 0 : x >= 0x1p63 ? 0x7fffffffffffffffll : x <= -0x1p63 ? -0x7fffffffffffffffll - 1 : (i64) x;
}

// Conversions from a computation type to any type. Use narrow<T>(x).
template <class T> struct Narrow;
template <> struct Narrow<f32> {
    DEVICE f32 of(f32 x) { return x; }
    DEVICE f32 of(f64 x) { return (f32) x; }
    DEVICE f32 of(i64 x) { return (f32) x; }
};
template <> struct Narrow<f64> {
    DEVICE f64 of(f32 x) { return x; }
    DEVICE f64 of(f64 x) { return x; }
    DEVICE f64 of(i64 x) { return (f64) x; }
};
template <> struct Narrow<bf16> {
    DEVICE bf16 of(bf16 x) { return x; }
    DEVICE bf16 of(f32 x) { return brain_of(x); }
    DEVICE bf16 of(f64 x) { return brain_of(to_odd(x)); }
    DEVICE bf16 of(i64 x) { return of(to_odd(x)); }
};
template <> struct Narrow<f16> {
    DEVICE f16 of(f16 x) { return x; }
    DEVICE f16 of(f32 x) { return half_of(x); }
    DEVICE f16 of(f64 x) { return half_of(to_odd(x)); }
    DEVICE f16 of(i64 x) { return of((f64) x); }
};
template <> struct Narrow<boolean> {
    template <class C> DEVICE boolean of(C x) { boolean y; y.value = x != 0; return y; }
};
template <class T> struct NarrowInteger {
    DEVICE T of(f32 x) { return (T) integer_of(x); }
    DEVICE T of(f64 x) { return (T) integer_of(x); }
    DEVICE T of(i64 x) { return (T) x; }
};
template <> struct Narrow<i64> : NarrowInteger<i64> { };
template <> struct Narrow<i32> : NarrowInteger<i32> { };
template <> struct Narrow<i8> : NarrowInteger<i8> { };
template <> struct Narrow<u8> : NarrowInteger<u8> { };
template <class T, class C> DEVICE T narrow(C x) { return Narrow<T>::of(x); }

// Neighbours in memory that are read and written together.
template <class T, int N> struct alignas(sizeof(T) * N) Vec { T at[N]; };

// The elements of v or, if `same`, one element in place of each. Works on words, since 16-bit code elsewhere does too.
template <class T, int N> DEVICE Vec<T, N> either(const Vec<T, N>& v, T one, bool same) {
    Vec<T, N> y;
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {
        u32 bits = *(const u16*) &one;
        bits |= bits << 16;
        for (int k = 0; k < N; k += 2) {
            *(u32*) (y.at + k) = same ? bits : *(const u32*) (v.at + k);
        }
    } else {
        for (int k = 0; k < N; k++) {
            y.at[k] = same ? one : v.at[k];
        }
    }
    return y;
}

// Element k, widened. For bf16 that is a half of a word.
template <class T, int N> DEVICE auto widen_at(const Vec<T, N>& v, int k) { return widen(v.at[k]); }
template <int N> DEVICE f32 widen_at(const Vec<bf16, N>& v, int k) {
    if constexpr (N % 2 == 0) {
        u32 word = *(const u32*) (v.at + (k & ~1));
        return float_of(k % 2 == 0 ? word << 16 : word & 0xffff0000u);
    } else {
        return widen(v.at[k]);
    }
}

// Narrows two neighbours, for 16-bit types in one instruction; y is aligned to the size of both.
template <class T, class C> DEVICE void narrow_two(T* y, C first, C second) {
    y[0] = narrow<T>(first);
    y[1] = narrow<T>(second);
}
#if BRAIN_UNITS
DEVICE void narrow_two(bf16* y, f32 first, f32 second) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(*(u32*) y) : "f"(second), "f"(first));
}
DEVICE void narrow_two(f16* y, f32 first, f32 second) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(*(u32*) y) : "f"(second), "f"(first));
}
#endif
template <class T, class C, int N> DEVICE Vec<T, N> narrow_all(const C (&x)[N]) {
    Vec<T, N> y;
    for (int k = 0; k + 1 < N; k += 2) {
        narrow_two(y.at + k, x[k], x[k + 1]);
    }
    if (N % 2 == 1) {
        y.at[N - 1] = narrow<T>(x[N - 1]);
    }
    return y;
}

// The memory layout of operands that are walked together; dimension 0 is the outermost. Strides count elements.
template <int OPERANDS> struct Layout {
    u32 rank, count, size[16], multiplier[16], shift[16];
    i64 stride[OPERANDS][16];

    // The offset of element i in each operand.
    __device__ __forceinline__ void offsets(u32 i, i64 (&offset)[OPERANDS]) const {
        for (int k = 0; k < OPERANDS; k++) {
            offset[k] = 0;
        }
        if (rank == 2) {
            // The usual case, without indexing by a variable.
            i = split(i, 1, offset);
        } else {
#pragma unroll 1
            for (u32 d = rank - 1; d > 0; d--) {
                i = split(i, d, offset);
            }
        }
        for (int k = 0; k < OPERANDS; k++) {
            offset[k] += i * stride[k][0];
        }
    }

    // Advances along dimension d; returns the element's number in the dimensions outside of it.
    __device__ __forceinline__ u32 split(u32 i, u32 d, i64 (&offset)[OPERANDS]) const {
        u32 outer = (__umulhi(i, multiplier[d]) + i) >> shift[d];
        u32 inner = i - outer * size[d];
        for (int k = 0; k < OPERANDS; k++) {
            offset[k] += inner * stride[k][d];
        }
        return outer;
    }

    // The stride of an operand along the innermost dimension.
    __device__ __forceinline__ i64 step(int operand) const { return stride[operand][rank - 1]; }
};

// The thread's number in a grid of blocks along x.
#define THREAD ((u64) blockIdx.x * blockDim.x + threadIdx.x)

// Sums and extremes over the 32 lanes of a warp; every lane gets the result.
template <class C> DEVICE C warp_sum(C x) {
    for (int lane = 16; lane > 0; lane >>= 1) {
        x += __shfl_xor_sync(0xffffffffu, x, lane);
    }
    return x;
}
// Of zeros with different signs the maximum is +0 and the minimum -0, as of the GPU's instructions.
DEVICE bool is_negative(f32 x) { return bits_of(x) >> 31 != 0; }
DEVICE bool is_negative(f64 x) { return bits_of(x) >> 63 != 0; }
DEVICE bool is_negative(i64 x) { return x < 0; }
template <class C> DEVICE C maximum(C a, C b) { return a > b || a != a || a == b && is_negative(b) ? a : b; }
template <class C> DEVICE C minimum(C a, C b) { return a < b || a != a || a == b && is_negative(a) ? a : b; }
#if BRAIN_UNITS
DEVICE f32 maximum(f32 a, f32 b) { f32 y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
DEVICE f32 minimum(f32 a, f32 b) { f32 y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
#endif
template <class C> DEVICE C warp_max(C x) {
    for (int lane = 16; lane > 0; lane >>= 1) {
        x = maximum(x, __shfl_xor_sync(0xffffffffu, x, lane));
    }
    return x;
}

// The same over a block of up to 1024 threads, a multiple of 32; every thread gets the result, and all must call it.
template <class C> DEVICE C block_sum(C x) {
    __shared__ C sums[32];
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.x / 32] = x;
    }
    __syncthreads();
    return warp_sum(threadIdx.x % 32 < blockDim.x / 32 ? sums[threadIdx.x % 32] : C(0));
}
template <class C> DEVICE C block_max(C x) {
    __shared__ C greatest[32];
    x = warp_max(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        greatest[threadIdx.x / 32] = x;
    }
    __syncthreads();
    return warp_max(greatest[threadIdx.x % 32 < blockDim.x / 32 ? threadIdx.x % 32 : 0]);
}

// The first index out of range that a thread's kernels meet: a record in host memory, and a flag in device memory,
// which guarded updates read.
struct FaultRecord { u32 taken, operation; i64 index, position; u32* broken; };
struct Fault { FaultRecord* record; u32 operation; };
DEVICE void report(Fault fault, i64 index, i64 position) {
    FaultRecord* record = fault.record;
    if (atomicCAS(&record->taken, 0u, 1u) == 0) {
        record->operation = fault.operation;
        record->index = index;
        record->position = position;
        *record->broken = 1;
    }
}
// Index k into a dimension, counted from its end if negative; reports an index out of range and returns -1.
DEVICE i64 checked_index(i64 k, i64 size, i64 position, Fault fault) {
    if (k < -size || k >= size) {
        report(fault, k, position);
        return -1;
    }
    return k < 0 ? k + size : k;
}
