// One expression of up to three broadcast operands for each element. Macros: OPERANDS, types TY TA TB TC, C (the type
// to compute in), EXPRESSION of a, b, c and the parameters p, q; WIDTH elements are a vector.

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
    DEVICE C normal_cumulative(C x) { return C(0.5) * (C(1) + erf(x * C(0.70710678118654752440))); } \
    DEVICE C normal_cumulative_by_tanh(C x) { \
        return C(0.5) * (C(1) + tanh(C(0.79788456080286535588) * (x + C(0.044715) * x * x * x))); \
    } \
    DEVICE C gelu_slope(C x) { \
        return normal_cumulative(x) + x * exp(C(-0.5) * x * x) * C(0.39894228040143267794); \
    } \
    DEVICE C gelu_slope_by_tanh(C x) { \
        C cumulative = normal_cumulative_by_tanh(x); \
        C inner = C(0.79788456080286535588) * (C(1) + C(3 * 0.044715) * x * x); \
        return cumulative + x * C(2) * cumulative * (C(1) - cumulative) * inner; \
    }
FLOATING(f32)
FLOATING(f64)
#undef FLOATING

#if OPERANDS < 2
typedef TA TB;
#endif
#if OPERANDS < 3
typedef TA TC;
#endif

DEVICE TY value_of(TA a_, TB b_, TC c_, C p, C q) {
    auto a = widen(a_);
    auto b = widen(b_);
    auto c = widen(c_);
    return narrow<TY>(EXPRESSION);
}

// WIDTH neighbours of x, or one element that stands for all of them.
template <class T> DEVICE Vec<T, WIDTH> read(const T* x, i64 step) {
    if (step == 1) {
        return *(const Vec<T, WIDTH>*) x;
    }
    Vec<T, WIDTH> all;
    for (int k = 0; k < WIDTH; k++) {
        all.at[k] = *x;
    }
    return all;
}

// The walk of one thread over W neighbours; operands that there are not have the first one's address and step 0.
template <int W> DEVICE void walk(TY* y, const TA* a, const TB* b, const TC* c, C p, C q,
        const Layout<1 + OPERANDS>& layout) {
    u32 i = (u32) THREAD * W;
    if (i >= layout.count) {
        return;
    }
    i64 at[1 + OPERANDS];
    layout.offsets(i, at);
    i64 step_b = OPERANDS > 1 ? layout.step(OPERANDS > 1 ? 2 : 1) : 0;
    i64 step_c = OPERANDS > 2 ? layout.step(OPERANDS > 2 ? 3 : 1) : 0;
    y += at[0];
    a += at[1];
    b = OPERANDS > 1 ? b + at[OPERANDS > 1 ? 2 : 1] : (const TB*) a;
    c = OPERANDS > 2 ? c + at[OPERANDS > 2 ? 3 : 1] : (const TC*) a;
    i64 step_y = layout.step(0);
    i64 step_a = layout.step(1);
    if (W > 1 && i + W <= layout.count) {
        Vec<TA, WIDTH> as = read(a, step_a);
        Vec<TB, WIDTH> bs = read(b, step_b);
        Vec<TC, WIDTH> cs = read(c, step_c);
        Vec<TY, WIDTH> ys;
        for (int k = 0; k < WIDTH; k++) {
            ys.at[k] = value_of(as.at[k], bs.at[k], cs.at[k], p, q);
        }
        *(Vec<TY, WIDTH>*) y = ys;
        return;
    }
    for (u32 k = 0; k < W && i + k < layout.count; k++) {
        y[k * step_y] = value_of(a[k * step_a], b[k * step_b], c[k * step_c], p, q);
    }
}

extern "C" __global__ void vectors(TY* y, const TA* a, const TB* b, const TC* c, C p, C q,
        Layout<1 + OPERANDS> layout) {
    walk<WIDTH>(y, a, b, c, p, q, layout);
}

extern "C" __global__ void scalars(TY* y, const TA* a, const TB* b, const TC* c, C p, C q,
        Layout<1 + OPERANDS> layout) {
    walk<1>(y, a, b, c, p, q, layout);
}
