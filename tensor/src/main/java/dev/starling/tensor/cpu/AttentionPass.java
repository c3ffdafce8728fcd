package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;
import static dev.starling.tensor.host.HostMemory.getFloat;
import static dev.starling.tensor.host.HostMemory.putFloat;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.Matmul;
import dev.starling.tensor.cpu.rows.AttentionRows;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.spi.Block;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Attention in f32, by blocks of queries. The scores of a block with all its visible keys are computed together and
 * stay in the cache; the backward pass computes them again. Each thread needs memory for one or two blocks of scores.
 * Threads divide the heads among them, so that sums over queries have a fixed order.
 */
final class AttentionPass {
    /** Scores of a block, if that leaves at least {@link #MIN_QUERIES} queries. */
    private static final int SCORES = 1 << 18;
    private static final int MAX_QUERIES = 256;
    private static final int MIN_QUERIES = 16;
    /** Causal blocks end at one of about this many positions; for each of them products are compiled. */
    private static final int ENDS = 32;

    private final float scale;
    private final boolean causal;
    private final Tensor q;
    private final Tensor k;
    private final Tensor v;
    private final @Nullable Tensor mask;
    private final AttentionRows rows;
    private final Shape lead;
    private final int queries;
    private final int keys;
    private final int width;
    private final int depth;
    private final int block;
    private final int blocks;

    /** Operands, and the mask, which is added to the scores, are f32 with contiguous rows. */
    AttentionPass(Attention op, Tensor q, Tensor k, Tensor v, @Nullable Tensor mask, AttentionRows rows) {
        scale = (float) op.scale();
        causal = op.causal();
        this.q = q;
        this.k = k;
        this.v = v;
        this.mask = mask;
        this.rows = rows;
        lead = Objects.requireNonNull(Shape.broadcast(
                Objects.requireNonNull(Shape.broadcast(lead(q), lead(k))), lead(v)));
        queries = Math.toIntExact(q.size(-2));
        keys = Math.toIntExact(k.size(-2));
        width = Math.toIntExact(q.size(-1));
        depth = Math.toIntExact(v.size(-1));
        block = Math.clamp(SCORES / keys / MIN_QUERIES * MIN_QUERIES, MIN_QUERIES, MAX_QUERIES);
        blocks = Math.ceilDiv(queries, block);
    }

    private static Shape lead(Tensor x) {
        return x.shape().slice(0, x.rank() - 2);
    }

    void forward(Tensor y, Tensor logs) {
        Parallel.forRange(lead.count() * blocks, 1, (from, to) -> {
            Matmul[] scores = new Matmul[blocks];
            Matmul[] results = new Matmul[blocks];
            Block scratch = HostAllocator.shared().allocate(4L * block * keys);
            try {
                for (long i = from; i < to; i++) {
                    int b = (int) (i % blocks);
                    if (scores[b] == null) {
                        scores[b] = product(size(b), blockKeys(b), width);
                        results[b] = product(size(b), depth, blockKeys(b));
                    }
                    forward(i / blocks, b, scores[b], results[b], scratch.address(), y, logs);
                }
            } finally {
                HostAllocator.shared().free(scratch);
            }
        });
    }

    private void forward(long head, int b, Matmul scores, Matmul result, long s, Tensor y, Tensor logs) {
        int first = b * block;
        int blockKeys = blockKeys(b);
        scores(scores, head, first, blockKeys, s);
        for (int r = 0; r < size(b); r++) {
            long row = s + 4L * r * blockKeys;
            int n = visible(first + r, blockKeys);
            long bias = bias(head, first + r);
            float max = rows.max(row, n, scale, bias);
            float shift = max == Float.NEGATIVE_INFINITY ? 0 : max;
            float sum = rows.exponentials(row, n, scale, bias, shift);
            boolean blind = sum == 0;
            rows.scale(row, n, blind ? 0 : 1 / sum);
            clear(row, n, blockKeys);
            float log = blind ? Float.NEGATIVE_INFINITY : (float) (max + StrictMath.log(sum));
            putFloat(logs.address() + 4 * (head * queries + first + r), log);
        }
        result.left(s, blockKeys, 1).right(at(v, head, 0), row(v), 1).result(at(y, head, first), row(y)).run();
    }

    void backward(Tensor g, Tensor y, Tensor logs, Tensor[] gradients) {
        Parallel.forRange(lead.count(), 1, (from, to) -> {
            Matmul[][] products = new Matmul[blocks][];
            Block scratch = HostAllocator.shared().allocate(8L * block * keys);
            try {
                for (long head = from; head < to; head++) {
                    for (int i = 1; i < 3; i++) {
                        for (int j = 0; j < keys; j++) {
                            clear(at(gradients[i], head, j), 0, (int) gradients[i].size(-1));
                        }
                    }
                    for (int b = 0; b < blocks; b++) {
                        products[b] = products[b] != null ? products[b] : products(b);
                        backward(head, b, products[b], scratch.address(), new Tensor[] {g, y, logs}, gradients);
                    }
                }
            } finally {
                HostAllocator.shared().free(scratch);
            }
        });
    }

    private Matmul[] products(int b) {
        int n = size(b);
        int blockKeys = blockKeys(b);
        return new Matmul[] {product(n, blockKeys, width), product(n, blockKeys, depth), product(n, width, blockKeys),
            product(blockKeys, width, n).accumulate(true), product(blockKeys, depth, n).accumulate(true)};
    }

    private void backward(long head, int b, Matmul[] products, long s, Tensor[] given, Tensor[] gradients) {
        int first = b * block;
        int blockKeys = blockKeys(b);
        int n = size(b);
        Tensor g = given[0];
        long slopes = s + 4L * block * keys;
        scores(products[0], head, first, blockKeys, s);
        products[1].left(at(g, head, first), row(g), 1).right(at(v, head, 0), 1, row(v)).result(slopes, blockKeys)
                .run();
        for (int r = 0; r < n; r++) {
            scoreGradient(head, first + r, s + 4L * r * blockKeys, slopes + 4L * r * blockKeys, blockKeys, given);
        }
        products[2].left(slopes, blockKeys, 1).right(at(k, head, 0), row(k), 1)
                .result(at(gradients[0], head, first), row(gradients[0])).run();
        products[3].left(slopes, 1, blockKeys).right(at(q, head, first), row(q), 1)
                .result(at(gradients[1], head, 0), row(gradients[1])).run();
        products[4].left(s, 1, blockKeys).right(at(g, head, first), row(g), 1)
                .result(at(gradients[2], head, 0), row(gradients[2])).run();
    }

    /**
     * Replaces a row of scores by the attention weights, and a row of their gradients by the gradients of the scores.
     */
    private void scoreGradient(long head, int query, long weights, long slopes, int blockKeys, Tensor[] given) {
        int n = visible(query, blockKeys);
        float log = getFloat(given[2].address() + 4 * (head * queries + query));
        if (log == Float.NEGATIVE_INFINITY) {
            n = 0;
        } else {
            float dot = rows.dot(at(given[0], head, query), at(given[1], head, query), depth);
            rows.exponentials(weights, n, scale, bias(head, query), log);
            rows.scoreGradient(weights, slopes, n, dot, scale);
        }
        clear(weights, n, blockKeys);
        clear(slopes, n, blockKeys);
    }

    private void scores(Matmul product, long head, int first, int blockKeys, long to) {
        product.left(at(q, head, first), row(q), 1).right(at(k, head, 0), 1, row(k)).result(to, blockKeys).run();
    }

    private static Matmul product(int m, int n, int k) {
        return new Matmul(ElementType.F32, ElementType.F32, m, n, k);
    }

    /** Returns the number of queries of a block. */
    private int size(int b) {
        return Math.min(block, queries - b * block);
    }

    /** Returns the number of keys with which a block computes scores. */
    private int blockKeys(int b) {
        int step = Math.max(block, Math.ceilDiv(Math.ceilDiv(keys, ENDS), MIN_QUERIES) * MIN_QUERIES);
        return causal ? (int) Math.min(keys, Math.ceilDiv((b + 1L) * block, step) * step) : keys;
    }

    private int visible(int query, int blockKeys) {
        return causal ? Math.min(blockKeys, query + 1) : blockKeys;
    }

    private long bias(long head, int query) {
        return mask == null ? 0 : mask.rank() == 1 ? mask.address() : at(mask, head, query);
    }

    private static void clear(long row, int from, int to) {
        if (from < to) {
            ALL.asSlice(row + 4L * from, 4L * (to - from)).fill((byte) 0);
        }
    }

    /** Returns the distance between rows in elements; for a single row any value would do. */
    private static long row(Tensor x) {
        return x.size(-2) == 1 ? x.size(-1) : x.strides()[x.rank() - 2];
    }

    /** Returns the address of a row of a head, in a tensor whose leading dimensions broadcast. */
    private long at(Tensor x, long head, int row) {
        long offset = x.size(-2) == 1 ? 0 : row * x.strides()[x.rank() - 2];
        long rest = head;
        for (int i = lead.rank() - 1, d = x.rank() - 3; d >= 0; i--, d--) {
            offset += x.size(d) == 1 ? 0 : rest % lead.dim(i) * x.strides()[d];
            rest /= lead.dim(i);
        }
        return x.address() + 4 * offset;
    }
}
