// Matrix products by tiles: a block of 256 threads computes 64 × 64 results, a thread 4 × 4 of them. 16-bit products
// use tensor units if the GPU has them. Macro: T (type in memory).
#define TILE 64
#define DEPTH 16
#define TILE_THREADS 256

DEVICE f32 multiply_add(f32 a, f32 b, f32 sum) { return fma(a, b, sum); }
DEVICE f64 multiply_add(f64 a, f64 b, f64 sum) { return fma(a, b, sum); }
DEVICE i64 multiply_add(i64 a, i64 b, i64 sum) { return (i64) ((u64) a * (u64) b + (u64) sum); }

// Adds a matrix product [16, 16]·[16, 8], one for each warp. Of the left matrix, a thread holds pairs of neighbours in
// a row: in row lane / 4 and the row 8 below, from column lane % 4 · 2, then the same 8 columns further on. Of the
// right matrix it holds pairs in column lane / 4, from row lane % 4 · 2 and from 8 below; of the sums, pairs in rows
// lane / 4 and 8 below, from column lane % 4 · 2.
#ifdef __CUDACC__
#define MULTIPLY_ADD(T, name) \
    DEVICE void multiply_add(f32 (&sum)[4], const u32 (&a)[4], const u32 (&b)[2], T) { \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." name "." name ".f32 " \
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]) \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
    }
#if TENSOR_UNITS
MULTIPLY_ADD(bf16, "bf16")
MULTIPLY_ADD(f16, "f16")
#endif
#else
struct Fragments { u32 a[4], b[2]; };
template <class X> DEVICE f32 dot(u32 a, u32 b, f32 sum) {
    sum = fma(widen(X {(u16) a}), widen(X {(u16) b}), sum);
    return fma(widen(X {(u16) (a >> 16)}), widen(X {(u16) (b >> 16)}), sum);
}
template <class X> DEVICE void multiply_add(f32 (&sum)[4], const u32 (&a)[4], const u32 (&b)[2], X) {
    const Fragments* all = emulator::gather(Fragments {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
    u32 lane = threadIdx.x % 32;
    for (u32 k = 0; k < 8; k++) {
        for (u32 i = 0; i < 4; i++) {
            u32 left = all[lane / 4 * 4 + k % 4].a[k / 4 * 2 + i / 2];
            sum[i] = dot<X>(left, all[(lane % 4 * 2 + i % 2) * 4 + k % 4].b[k / 4], sum[i]);
        }
    }
    __syncwarp();
}
#endif

// Whether tensor units compute the products of a type.
template <class X> struct OnUnits { static const bool value = false; };
#if TENSOR_UNITS
template <> struct OnUnits<bf16> { static const bool value = true; };
template <> struct OnUnits<f16> { static const bool value = true; };
#endif

// A block's shared memory for products N steps deep of values of type X, summed in S.
template <class X, class S, int N, bool UNITS = OnUnits<X>::value> struct Steps {
    S left[N][TILE + 4];
    S right[N][TILE + 4];
};
// The distance of rows lets a warp's threads read from different banks.
template <class X, class S, int N> struct Steps<X, S, N, true> {
    union {
        struct {
            X left[TILE][N + 8];
            X right[TILE][N + 8];
        };
        S sums[TILE][TILE + 4];
    };
};

// Adds to sum[i][j] the products a(row, d)·b(d, column) for d in [from, to), where row is 4·(threadIdx.x / 16) + i and
// column is 4·(threadIdx.x % 16) + j. Neighbouring threads read along the depth if a matrix is declared to be
// contiguous along it. All threads of the block must call it, with the same shared memory.
template <class X, class S, int N, class A, class B> DEVICE void tile_product(Steps<X, S, N, false>& steps,
        S (&sum)[4][4], i64 from, i64 to, const A& a, bool a_along_depth, const B& b, bool b_along_depth) {
    u32 t = threadIdx.x;
    u32 row = t / 16 * 4;
    u32 column = t % 16 * 4;
    for (i64 first = from; first < to; first += N) {
        for (u32 e = t; e < TILE * N; e += TILE_THREADS) {
            u32 d = a_along_depth ? e % N : e / TILE;
            u32 at = a_along_depth ? e / N : e % TILE;
            steps.left[d][at] = first + d < to ? a(at, first + d) : S(0);
            d = b_along_depth ? e % N : e / TILE;
            at = b_along_depth ? e / N : e % TILE;
            steps.right[d][at] = first + d < to ? b(first + d, at) : S(0);
        }
        __syncthreads();
        for (int d = 0; d < N; d++) {
            S l[4], r[4];
            for (int i = 0; i < 4; i++) {
                l[i] = steps.left[d][row + i];
                r[i] = steps.right[d][column + i];
            }
            for (int i = 0; i < 4; i++) {
                for (int j = 0; j < 4; j++) {
                    sum[i][j] = multiply_add(l[i], r[j], sum[i][j]);
                }
            }
        }
        __syncthreads();
    }
}

template <class X> DEVICE u32 pair(const X* at) { return *(const u32*) at; }

// The same on tensor units, in 16 bits: a warp computes 16 × 32 sums, which reach their threads through shared memory.
template <class X, class S, int N, class A, class B> DEVICE void tile_product(Steps<X, S, N, true>& steps,
        S (&sum)[4][4], i64 from, i64 to, const A& a, bool a_along_depth, const B& b, bool b_along_depth) {
    u32 t = threadIdx.x;
    u32 row = t / 32 % 4 * 16 + t % 32 / 4;
    u32 column = t / 128 * 32;
    u32 place = t % 4 * 2;
    f32 parts[4][4] = {};
    for (i64 first = from; first < to; first += N) {
        for (u32 e = t; e < TILE * N; e += TILE_THREADS) {
            u32 d = a_along_depth ? e % N : e / TILE;
            u32 at = a_along_depth ? e / N : e % TILE;
            steps.left[at][d] = narrow<X>(first + d < to ? a(at, first + d) : S(0));
            d = b_along_depth ? e % N : e / TILE;
            at = b_along_depth ? e / N : e % TILE;
            steps.right[at][d] = narrow<X>(first + d < to ? b(first + d, at) : S(0));
        }
        __syncthreads();
        for (u32 d = place; d < N && first + d - place < to; d += 16) {
            const u32 left[4] = {pair(&steps.left[row][d]), pair(&steps.left[row + 8][d]),
                pair(&steps.left[row][d + 8]), pair(&steps.left[row + 8][d + 8])};
            for (u32 j = 0; j < 4; j++) {
                const X* right = steps.right[column + j * 8 + t % 32 / 4] + d;
                const u32 pairs[2] = {pair(right), pair(right + 8)};
                multiply_add(parts[j], left, pairs, X());
            }
        }
        __syncthreads();
    }
    for (u32 j = 0; j < 4; j++) {
        for (u32 i = 0; i < 4; i++) {
            steps.sums[row + i / 2 * 8][column + j * 8 + place + i % 2] = parts[j][i];
        }
    }
    __syncthreads();
    for (u32 i = 0; i < 4; i++) {
        for (u32 j = 0; j < 4; j++) {
            sum[i][j] += steps.sums[t / 16 * 4 + i][t % 16 * 4 + j];
        }
    }
    __syncthreads();
}

// The same, with its own shared memory.
template <class S, class A, class B> DEVICE void tile_product(S (&sum)[4][4], i64 from, i64 to, const A& a,
        bool a_along_depth, const B& b, bool b_along_depth) {
    __shared__ Steps<T, S, OnUnits<T>::value ? 2 * DEPTH : DEPTH> steps;
    tile_product(steps, sum, from, to, a, a_along_depth, b, b_along_depth);
}

// Calls put(row, column, sum) for those of a thread's sums that lie within rows and columns, for a tile that begins at
// row and column.
template <class S, class Put> DEVICE void tile_results(const S (&sum)[4][4], i64 row, i64 column, i64 rows, i64 columns,
        const Put& put) {
    row += threadIdx.x / 16 * 4;
    column += threadIdx.x % 16 * 4;
    for (u32 i = 0; i < 4 && row + i < rows; i++) {
        for (u32 j = 0; j < 4 && column + j < columns; j++) {
            put(row + i, column + j, sum[i][j]);
        }
    }
}

template <class S> DEVICE S rectified(S x) { return x <= 0 ? S(0) : x; }
