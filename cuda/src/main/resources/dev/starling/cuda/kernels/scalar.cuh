// The primitive functions of formulas, as far as CUDA has none of that name; see FormulaSource.

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

// Numbers within the bounds stay, with the sign of a zero.
template <class X> DEVICE X clamped(X a, X low, X high) {
    X least = a < low ? low : a;
    return high < least ? high : least;
}

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
    DEVICE C power(C a, C b) { return b == 3 ? a * a * a : pow(a, b); } \
    DEVICE C sigmoid(C x) { return C(1) / (C(1) + exp(-x)); } \
    /* For x far below 0 the exponential of -x overflows before the result is 0. */ \
    DEVICE C silu(C x) { \
        C power = exp(-fabs(x)); \
        return x * (x < 0 ? power : C(1)) / (C(1) + power); \
    } \
    DEVICE C normal_cumulative(C x) { return C(0.5) * (C(1) + erf(x * C(0.70710678118654752440))); } \
    DEVICE C normal_cumulative_by_tanh(C x) { \
        return C(0.5) * (C(1) + tanh(C(0.79788456080286535588) * (x + C(0.044715) * x * x * x))); \
    } \
    DEVICE C gelu_slope(C x) { \
        return normal_cumulative(x) + x * exp(C(-0.5) * x * x) * C(0.39894228040143267794); \
    } \
    /* Where the cumulative distribution is 0 or 1, x or its square may be infinite. */ \
    DEVICE C slope_by_tanh(C x, C cumulative) { \
        C spread = C(2) * cumulative * (C(1) - cumulative); \
        C inner = C(0.79788456080286535588) * (C(1) + C(3 * 0.044715) * x * x); \
        return spread == 0 ? cumulative : cumulative + x * spread * inner; \
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
