// Folds of one operand. Macros: FOLD_TYPE, one of the folds below; types TX, TY, C; GROUP, WIDTH.

#include "fold.cuh"

template <class N> struct Range;
template <> struct Range<f32> {
    DEVICE f32 least() { return float_of(0xff800000u); }
    DEVICE f32 greatest() { return float_of(0x7f800000u); }
};
template <> struct Range<f64> {
    DEVICE f64 least() { return double_of(0xfff0000000000000ull); }
    DEVICE f64 greatest() { return double_of(0x7ff0000000000000ull); }
};
template <> struct Range<i64> {
    DEVICE i64 least() { return -0x7fffffffffffffffll - 1; }
    DEVICE i64 greatest() { return 0x7fffffffffffffffll; }
};

DEVICE f32 plus(f32 a, f32 b) { return a + b; }
DEVICE f64 plus(f64 a, f64 b) { return a + b; }
DEVICE i64 plus(i64 a, i64 b) { return (i64) ((u64) a + (u64) b); }
DEVICE f32 times(f32 a, f32 b) { return a * b; }
DEVICE f64 times(f64 a, f64 b) { return a * b; }
DEVICE i64 times(i64 a, i64 b) { return (i64) ((u64) a * (u64) b); }

// A fold: the type of a partial result, the part of an element, and the result of n elements.
struct Sum {
    typedef C Part;
    DEVICE C none() { return C(0); }
    DEVICE C of(C x, u32 i) { return x; }
    DEVICE C join(C a, C b) { return plus(a, b); }
    DEVICE C result(C x, i64 n) { return x; }
};
struct Mean : Sum {
    DEVICE C result(C x, i64 n) { return x / (C) n; }
};
struct Prod : Sum {
    DEVICE C none() { return C(1); }
    DEVICE C join(C a, C b) { return times(a, b); }
};
struct Max : Sum {
    DEVICE C none() { return Range<C>::least(); }
    DEVICE C join(C a, C b) { return maximum(a, b); }
};
struct Min : Sum {
    DEVICE C none() { return Range<C>::greatest(); }
    DEVICE C join(C a, C b) { return minimum(a, b); }
};
struct Any {
    typedef u32 Part;
    DEVICE u32 none() { return 0; }
    DEVICE u32 of(C x, u32 i) { return x != 0; }
    DEVICE u32 join(u32 a, u32 b) { return a | b; }
    DEVICE i64 result(u32 x, i64 n) { return x; }
};
struct All : Any {
    DEVICE u32 none() { return 1; }
    DEVICE u32 join(u32 a, u32 b) { return a & b; }
};
// The first NaN, or else the first maximum; index NOWHERE stands for no element.
static const u32 NOWHERE = 0xffffffffu;
struct Found {
    C value;
    u32 index, unused;
};
struct ArgMax {
    typedef Found Part;
    DEVICE Found none() { return Found {C(0), NOWHERE, 0}; }
    DEVICE Found of(C x, u32 i) { return Found {x, i, 0}; }
    DEVICE bool beats(C a, C b) { return a > b; }
    template <class F> DEVICE Found better(Found a, Found b) {
        bool nan_a = is_nan(a.value), nan_b = is_nan(b.value);
        bool same = nan_a || nan_b ? nan_a && nan_b : a.value == b.value;
        bool first = same ? a.index < b.index : nan_a || !nan_b && F::beats(a.value, b.value);
        return b.index == NOWHERE || a.index != NOWHERE && first ? a : b;
    }
    DEVICE Found join(Found a, Found b) { return better<ArgMax>(a, b); }
    DEVICE i64 result(Found x, i64 n) { return x.index; }
};
struct ArgMin : ArgMax {
    DEVICE bool beats(C a, C b) { return a < b; }
    DEVICE Found join(Found a, Found b) { return better<ArgMin>(a, b); }
};

struct Reduction : FOLD_TYPE {
    struct Lane { };
    const TX* x;
    TY* y;
    i64 n;
    DEVICE Lane lane(u32 output) { return Lane(); }
    template <int W> __device__ __forceinline__ void take(Part* parts, const Lane* lanes, const i64* at, u32 i,
            u32 step) const {
        Vec<TX, W> v = load<TX, W>(x + at[0]);
        for (int k = 0; k < W; k++) {
            parts[k] = join(parts[k], of(widen_at(v, k), i + k * step));
        }
    }
    __device__ __forceinline__ void end(u32 output, Part part) const { y[output] = narrow<TY>(result(part, n)); }
};

FOLD(Reduction, 1)
