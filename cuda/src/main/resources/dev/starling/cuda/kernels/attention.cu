// Attention; see attention.cuh.
#include "tiles.cuh"
#include "attention.cuh"

extern "C" __global__ void __launch_bounds__(256) attention(Attention p, T* y, C* logs, i64 y_row, Layout<5> heads) {
    SHARED;
    i64 first = (i64) blockIdx.x * TILE;
    i64 base = (i64) blockIdx.z * CHUNKS * TILE;
    for (u32 head = blockIdx.y; head < heads.count; head += gridDim.y) {
        Heads at;
        heads.offsets(head, at);
        Matrix q = queries(p, at), k = keys(p, at), v = values(p, at);
        Part result[CHUNKS] = {};
        C greatest[4], sum[4];
        for (int i = 0; i < 4; i++) {
            greatest[i] = -infinity();
            sum[i] = 0;
        }
        i64 end = p.causal && first + TILE < p.keys ? first + TILE : p.keys;
        for (i64 from = 0; from < end; from += TILE) {
            Part s = {};
            multiply(staged, s, q, first, k, from);
            for (int i = 0; i < 4; i++) {
                C best = greatest[i];
                for (int j = 0; j < 4; j++) {
                    bool seen = finish(s[i][j], p, at, first + row + i, from + column + j);
                    s[i][j] = seen ? s[i][j] : -infinity();
                    best = maximum(best, s[i][j]);
                }
                best = row_max(best);
                C shift = best == -infinity() ? C(0) : best;
                C decay = exp(greatest[i] - shift);
                C total = 0;
                for (int j = 0; j < 4; j++) {
                    C weight = exp(s[i][j] - shift);
                    tile[row + i][column + j] = weight;
                    total += weight;
                    for (int c = 0; c < CHUNKS; c++) {
                        result[c][i][j] *= decay;
                    }
                }
                sum[i] = sum[i] * decay + row_sum(total);
                greatest[i] = best;
            }
            __syncthreads();
            weigh<false>(staged, tile, result, v, from, base);
        }
        for (int i = 0; i < 4; i++) {
            i64 query = first + row + i;
            if (query >= p.queries) {
                continue;
            }
            for (int c = 0; c < CHUNKS; c++) {
                for (int j = 0; j < 4; j++) {
                    i64 place = base + c * TILE + column + j;
                    if (place < p.depth) {
                        C x = sum[i] == 0 ? C(0) : result[c][i][j] / sum[i];
                        y[at[0] + query * y_row + place] = narrow<T>(x);
                    }
                }
            }
            if (column == 0 && blockIdx.z == 0) {
                C log_sum = greatest[i] + log(sum[i]);
                logs[head * p.queries + query] = sum[i] == 0 ? -infinity() : log_sum;
            }
        }
    }
}
