// One expression of up to three broadcast operands for each element. Macros: OPERANDS; types TY TA TB TC; C, the type
// to compute in; EXPRESSION of a, b, c and the parameters p, q; LAYOUT, a Layout or Flat; WIDTH, the elements of a
// vector, of which a thread handles TURNS. Blocks have 256 threads.

DEVICE i64 add(i64 a, i64 b) { return (i64) ((u64) a + (u64) b); }
DEVICE i64 subtract(i64 a, i64 b) { return (i64) ((u64) a - (u64) b); }
DEVICE i64 multiply(i64 a, i64 b) { return (i64) ((u64) a * (u64) b); }
DEVICE i64 negative(i64 a) { return subtract(0, a); }
DEVICE i64 absolute(i64 a) { return a < 0 ? subtract(0, a) : a; }
DEVICE i64 floor_divide(i64 a, i64 b) {
    if (b == 0 || b == -1) {
        return b == 0 ? 0 : subtract(0, a);
    }
    i64 quotient = a / b;
    return quotient * b != a && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
DEVICE i64 remainder_of(i64 a, i64 b) { return b == 0 ? 0 : subtract(a, multiply(floor_divide(a, b), b)); }

#define FLOATING(C) \
    DEVICE C add(C a, C b) { return a + b; } \
    DEVICE C subtract(C a, C b) { return a - b; } \
    DEVICE C multiply(C a, C b) { return a * b; } \
    DEVICE C negative(C a) { return -a; } \
    DEVICE C absolute(C a) { return fabs(a); } \
    DEVICE C remainder_of(C a, C b) { \
        C rest = fmod(a, b); \
        return rest == 0 ? copysign(C(0), b) : (rest < 0) != (b < 0) ? rest + b : rest; \
    } \
    DEVICE C floor_divide(C a, C b) { \
        if (b == 0) { \
            return a / b; \
        } \
        C rest = fmod(a, b); \
        C quotient = rint((a - rest) / b) - (rest != 0 && (rest < 0) != (b < 0) ? C(1) : C(0)); \
        return quotient == 0 ? copysign(C(0), a / b) : quotient; \
    } \
    DEVICE C sigmoid(C x) { return C(1) / (C(1) + exp(-x)); } \
    DEVICE C silu(C x) { return x / (C(1) + exp(-x)); } \
    DEVICE C normal_cumulative(C x) { return C(0.5) * (C(1) + erf(x * C(0.70710678118654752440))); } \
    DEVICE C normal_cumulative_by_tanh(C x) { \
        return C(0.5) * (C(1) + tanh(C(0.79788456080286535588) * (x + C(0.044715) * x * x * x))); \
    } \
    DEVICE C gelu_slope(C x) { \
        return normal_cumulative(x) + x * exp(C(-0.5) * x * x) * C(0.39894228040143267794); \
    } \
    DEVICE C slope_by_tanh(C x, C cumulative) { \
        C inner = C(0.79788456080286535588) * (C(1) + C(3 * 0.044715) * x * x); \
        return cumulative + x * C(2) * cumulative * (C(1) - cumulative) * inner; \
    } \
    DEVICE C gelu_slope_by_tanh(C x) { return slope_by_tanh(x, normal_cumulative_by_tanh(x)); }
FLOATING(f32)
FLOATING(f64)
#undef FLOATING

// The same functions for elements stored in 16 bits. Storing rounds results to at most 11 significant bits, so
// functions with 18 are accurate enough. An H200 at 4.3 TB/s has time for 31 instructions per element that is read and
// written in 16 bits. On sm_90, including the walk, relu needs 4, a sum 6, silu 9, gelu by tanh 11, gelu 15, its
// gradient 21; in f32, with time for 62, gelu needs 32, its gradient 46.
DEVICE f32 quick_logistic(f32 log2) { return quick_reciprocal(1 + quick_exp2(-log2)); }
DEVICE f32 quick_sigmoid(f32 x) { return quick_logistic(1.44269504f * x); }
DEVICE f32 quick_silu(f32 x) { return x * quick_sigmoid(x); }
// At -|x|: 2 to the power of a polynomial, fitted to 3e-6 of the value on [-6, 0]; below it the function tends to 0.
DEVICE f32 quick_normal_cumulative(f32 x) {
    f32 size = fabs(x), log2 = -1.8348058e-6f;
    log2 = log2 * size + 6.1598158e-5f;
    log2 = log2 * size - 9.3052364e-4f;
    log2 = log2 * size + 8.5078854e-3f;
    log2 = log2 * size - 5.3960056e-2f;
    log2 = log2 * size - 0.45846441f;
    log2 = log2 * size - 1.1512510f;
    log2 = log2 * size - 0.99999530f;
    f32 tail = quick_exp2(log2);
    return x > 0 ? 1 - tail : tail;
}
DEVICE f32 quick_normal_cumulative_by_tanh(f32 x) { return quick_logistic(x * (2.3022082f + 0.10294324f * x * x)); }
DEVICE f32 quick_gelu_slope(f32 x) {
    return quick_normal_cumulative(x) + x * quick_exp2(-0.72134752f * x * x) * 0.39894228f;
}
DEVICE f32 quick_gelu_slope_by_tanh(f32 x) { return slope_by_tanh(x, quick_normal_cumulative_by_tanh(x)); }

#if OPERANDS < 2
typedef TA TB;
#endif
#if OPERANDS < 3
typedef TA TC;
#endif

// The parameters of the expression.
struct Parameters { C at[PARAMETERS]; };

// The result for element k of the vectors.
template <int W> DEVICE auto value_of(const Vec<TA, W>& as, const Vec<TB, W>& bs, const Vec<TC, W>& cs, int k,
        const Parameters& s) {
    C p = s.at[0], q = s.at[1];
    auto a_ = as.at[k];
    auto a = widen_at(as, k);
    auto b = widen_at(bs, k);
    auto c = widen_at(cs, k);
    return EXPRESSION;
}

// W neighbours or, where the operand is broadcast, one element for all.
template <class T, int W> struct Read {
    Vec<T, W> all;
    T one;
    bool same;
    DEVICE Read at(const T* x, bool same) {
        Read read;
        read.same = W > 1 && same;
        if (read.same) {
            read.one = *x;
        } else {
            read.all = *(const Vec<T, W>*) x;
        }
        return read;
    }
    __device__ __forceinline__ Vec<T, W> elements() const { return W > 1 ? either(all, one, same) : all; }
};

template <int W> DEVICE void write(TY* y, const Vec<TA, W>& a, const Vec<TB, W>& b, const Vec<TC, W>& c,
        const Parameters& s) {
    decltype(value_of(a, b, c, 0, s)) values[W];
    for (int k = 0; k < W; k++) {
        values[k] = value_of(a, b, c, k, s);
    }
    *(Vec<TY, W>*) y = narrow_all<TY>(values);
}

// The layout of operands that all have one order without gaps.
struct Flat {
    u32 count;
    __device__ __forceinline__ void offsets(u32 i, i64 (&offset)[1 + OPERANDS]) const {
        for (int k = 0; k <= OPERANDS; k++) {
            offset[k] = i;
        }
    }
    __device__ __forceinline__ i64 step(int operand) const { return 1; }
};

// A thread handles TURNS·WIDTH elements and reads all of them before it computes. Past the end it reads the last
// elements again, so that nothing branches. Pointers of absent operands equal the first operand's.
extern "C" __global__ void __launch_bounds__(256) elementwise(TY* y, const TA* a, const TB* b, const TC* c,
        Parameters s, LAYOUT layout) {
    const int of_b = OPERANDS > 1 ? 2 : 1, of_c = OPERANDS > 2 ? 3 : 1;
    b = OPERANDS > 1 ? b : (const TB*) a;
    c = OPERANDS > 2 ? c : (const TC*) a;
    u32 begin = (blockIdx.x * (TURNS * 256) + threadIdx.x) * WIDTH;
    u32 rest = layout.count % WIDTH, end = layout.count - rest;
    i64 at[TURNS][1 + OPERANDS];
    if (end > 0) {
        Read<TA, WIDTH> as[TURNS];
        Read<TB, WIDTH> bs[TURNS];
        Read<TC, WIDTH> cs[TURNS];
        for (int t = 0; t < TURNS; t++) {
            layout.offsets(min(begin + t * 256 * WIDTH, end - WIDTH), at[t]);
            as[t] = Read<TA, WIDTH>::at(a + at[t][1], layout.step(1) == 0);
            bs[t] = Read<TB, WIDTH>::at(b + at[t][of_b], layout.step(of_b) == 0);
            cs[t] = Read<TC, WIDTH>::at(c + at[t][of_c], layout.step(of_c) == 0);
        }
        for (int t = 0; t < TURNS; t++) {
            if (begin + t * 256 * WIDTH < end) {
                write(y + at[t][0], as[t].elements(), bs[t].elements(), cs[t].elements(), s);
            }
        }
    }
    // The elements that do not fill a vector.
    if (WIDTH > 1 && blockIdx.x == gridDim.x - 1 && threadIdx.x < rest) {
        layout.offsets(end + threadIdx.x, at[0]);
        write(y + at[0][0], *(const Vec<TA, 1>*) (a + at[0][1]), *(const Vec<TB, 1>*) (b + at[0][of_b]),
                *(const Vec<TC, 1>*) (c + at[0][of_c]), s);
    }
}
