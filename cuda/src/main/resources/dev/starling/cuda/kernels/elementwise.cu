// One expression of up to three broadcast operands for each element. Macros: OPERANDS; types TY TA TB TC; C, the type
// to compute in; EXPRESSION of a, b, c and the PARAMETERS s.at[0], s.at[1] and so on; LAYOUT, a Layout or Flat; WIDTH,
// the elements of a vector, of which a thread handles TURNS. Blocks have 256 threads.

#include "scalar.cuh"

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
