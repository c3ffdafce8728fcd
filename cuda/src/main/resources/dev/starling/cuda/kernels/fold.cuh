// Folds each line of elements into one result. A problem P has
//   Part, the type of a partial result, a multiple of 4 bytes, with none() and join(a, b), in any order;
//   Lane, what is known of a line before its elements are read, and lane(output);
//   take<W>(parts, lanes, at, i, step): adds W neighbours of every operand to W parts; they begin at offsets `at` and
//     are the elements i, i + step, .. of their lines;
//   end(output, part): stores the result of a line.
// A line may be cut into pieces, one for each block along y; fold_finish joins the parts of the pieces.

#define AHEAD 4

template <class S, int W> DEVICE Vec<S, W> load(const S* x) { return *(const Vec<S, W>*) x; }

template <class Part> DEVICE Part of_lane(Part x, int lanes) {
    u32* words = (u32*) &x;
    for (int k = 0; k < sizeof(Part) / 4; k++) {
        words[k] = __shfl_xor_sync(0xffffffffu, words[k], lanes);
    }
    return x;
}

// Joins the parts of groups of up to 32 threads; all threads of a warp must call it.
template <int G, class P> DEVICE typename P::Part join_lanes(const P& problem, typename P::Part part) {
    for (int lanes = 1; lanes < G && lanes < 32; lanes *= 2) {
        part = problem.join(part, of_lane(part, lanes));
    }
    return part;
}

template <class P> DEVICE void fold_end(const P& problem, typename P::Part* parts, u32 output, typename P::Part part) {
    if (gridDim.y == 1) {
        problem.end(output, part);
    } else {
        parts[(u64) output * gridDim.y + blockIdx.y] = part;
    }
}

// One line for every G neighbouring threads, for lines whose elements are neighbours in memory.
template <int G, int W, int K, class P> DEVICE void fold_rows(const P& problem, typename P::Part* parts, u32 count,
        u32 length, const Layout<K + 1>& kept, const Layout<K>& fold) {
    u32 line = blockIdx.x * (blockDim.x / G) + threadIdx.x / G;
    bool mine = line < kept.count;
    i64 first[K + 1], at[K];
    kept.offsets(mine ? line : 0, first);
    typename P::Part mine_parts[W];
    typename P::Lane lanes[W];
    for (int k = 0; k < W; k++) {
        mine_parts[k] = problem.none();
        lanes[k] = problem.lane((u32) first[K]);
    }
    u32 begin = blockIdx.y * length;
    u32 end = count - begin < length ? count : begin + length;
    u32 i = begin + threadIdx.x % G * W;
    // Contiguous elements: the reads of four iterations are independent.
    for (; W > 1 && i + (AHEAD - 1) * G * W + W <= end; i += AHEAD * G * W) {
#pragma unroll
        for (u32 turn = 0; turn < AHEAD; turn++) {
            for (int k = 0; k < K; k++) {
                at[k] = first[k] + i + turn * G * W;
            }
            problem.template take<W>(mine_parts, lanes, at, i + turn * G * W, 1);
        }
    }
    for (; i < end; i += G * W) {
        fold.offsets(i, at);
        for (int k = 0; k < K; k++) {
            at[k] += first[k];
        }
        if (W == 1 || i + W <= end) {
            problem.template take<W>(mine_parts, lanes, at, i, 1);
        } else {
            for (u32 k = 0; i + k < end; k++) {
                problem.template take<1>(mine_parts, lanes, at, i + k, 1);
                for (int j = 0; j < K; j++) {
                    at[j]++;
                }
            }
        }
    }
    typename P::Part part = mine_parts[0];
    for (int k = 1; k < W; k++) {
        part = problem.join(part, mine_parts[k]);
    }
    part = join_lanes<G>(problem, part);
    if (G > 32) {
        __shared__ typename P::Part shared[G > 32 ? G / 32 : 1];
        if (threadIdx.x % 32 == 0) {
            shared[threadIdx.x / 32] = part;
        }
        __syncthreads();
        for (int w = 1; threadIdx.x == 0 && w < G / 32; w++) {
            part = problem.join(part, shared[w]);
        }
    }
    if (mine && threadIdx.x % G == 0) {
        fold_end(problem, parts, (u32) first[K], part);
    }
}

// W lines for each of the 32 threads along a row of a block, whose 8 rows share the lines; for neighbouring lines.
template <int W, int K, class P> DEVICE void fold_columns(const P& problem, typename P::Part* parts, u32 count,
        u32 length, const Layout<K + 1>& kept, const Layout<K>& fold) {
    __shared__ typename P::Part shared[8][W][32];
    u32 column = threadIdx.x % 32, row = threadIdx.x / 32;
    u32 line = (blockIdx.x * 32 + column) * W;
    bool mine = line < kept.count;
    i64 first[K + 1], at[K];
    kept.offsets(mine ? line : 0, first);
    typename P::Part mine_parts[W];
    typename P::Lane lanes[W];
    for (int k = 0; k < W; k++) {
        mine_parts[k] = problem.none();
        lanes[k] = problem.lane((u32) (first[K] + k * kept.step(K)));
    }
    u32 begin = blockIdx.y * length;
    u32 end = count - begin < length ? count : begin + length;
    if (mine) {
        u32 i = begin + row;
        // A fold of one dimension: the reads of four iterations are independent.
        for (; fold.rank == 1 && i + (AHEAD - 1) * 8 < end; i += AHEAD * 8) {
#pragma unroll
            for (u32 turn = 0; turn < AHEAD; turn++) {
                for (int k = 0; k < K; k++) {
                    at[k] = first[k] + (i + turn * 8) * fold.stride[k][0];
                }
                problem.template take<W>(mine_parts, lanes, at, i + turn * 8, 0);
            }
        }
        for (; i < end; i += 8) {
            fold.offsets(i, at);
            for (int k = 0; k < K; k++) {
                at[k] += first[k];
            }
            problem.template take<W>(mine_parts, lanes, at, i, 0);
        }
    }
    for (int k = 0; k < W; k++) {
        shared[row][k][column] = mine_parts[k];
    }
    __syncthreads();
    for (int k = 0; row == 0 && mine && k < W; k++) {
        typename P::Part part = mine_parts[k];
        for (int r = 1; r < 8; r++) {
            part = problem.join(part, shared[r][k][column]);
        }
        fold_end(problem, parts, (u32) (first[K] + k * kept.step(K)), part);
    }
}

// Joins the pieces of a line, with a warp for each line.
template <class P> DEVICE void fold_finish(const P& problem, const typename P::Part* parts, u32 outputs, u32 pieces) {
    u32 output = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    typename P::Part part = problem.none();
    for (u32 i = threadIdx.x % 32; output < outputs && i < pieces; i += 32) {
        part = problem.join(part, parts[(u64) output * pieces + i]);
    }
    part = join_lanes<32>(problem, part);
    if (output < outputs && threadIdx.x % 32 == 0) {
        problem.end(output, part);
    }
}

// The kernels of a problem with a given number of operands. Macros: G, WIDTH.
#define FOLD(PROBLEM, OPERANDS) \
    extern "C" __global__ void rows(PROBLEM problem, PROBLEM::Part* parts, u32 count, u32 length, \
            Layout<OPERANDS + 1> kept, Layout<OPERANDS> fold) { \
        fold_rows<GROUP, WIDTH, OPERANDS>(problem, parts, count, length, kept, fold); \
    } \
    extern "C" __global__ void columns(PROBLEM problem, PROBLEM::Part* parts, u32 count, u32 length, \
            Layout<OPERANDS + 1> kept, Layout<OPERANDS> fold) { \
        fold_columns<(WIDTH > 4 ? 4 : WIDTH), OPERANDS>(problem, parts, count, length, kept, fold); \
    } \
    extern "C" __global__ void finish(PROBLEM problem, PROBLEM::Part* parts, u32 outputs, u32 pieces) { \
        fold_finish(problem, parts, outputs, pieces); \
    }
