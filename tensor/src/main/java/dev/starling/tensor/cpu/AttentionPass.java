package dev.starling.tensor.cpu;

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
 * Attention in f32, by groups of heads and blocks of queries ({@link AttentionGrid}). The scores of a block with all
 * its visible keys are computed together and stay in the cache; the backward pass computes them again. Each thread
 * needs memory for one or two blocks of scores, and makes one request for all its products. Threads divide the groups
 * among them, so that sums over queries have a fixed order.
 */
final class AttentionPass {
    private final float scale;
    /** The factor of scores to which a mask was added. */
    private final float seenScale;
    private final Tensor q;
    private final Tensor k;
    private final Tensor v;
    private final @Nullable Tensor mask;
    private final AttentionRows rows;
    private final AttentionGrid grid;
    private final int queries;
    private final int width;
    private final int depth;

    /** Operands, and the mask, which is added to the scores, are f32 with contiguous rows. */
    AttentionPass(Attention op, Tensor q, Tensor k, Tensor v, @Nullable Tensor mask, AttentionRows rows) {
        scale = (float) op.scale();
        seenScale = mask != null || scale == 0 ? 1 : scale;
        this.q = q;
        this.k = k;
        this.v = v;
        this.mask = mask;
        this.rows = rows;
        Shape lead = Objects.requireNonNull(Shape.broadcast(
                Objects.requireNonNull(Shape.broadcast(lead(q), lead(k))), lead(v)));
        queries = Math.toIntExact(q.size(-2));
        width = Math.toIntExact(q.size(-1));
        depth = Math.toIntExact(v.size(-1));
        grid = new AttentionGrid(lead, queries, Math.toIntExact(k.size(-2)), op.causal());
    }

    private static Shape lead(Tensor x) {
        return x.shape().slice(0, x.rank() - 2);
    }

    /** Work on a block: {@code scratch} is the address of memory for scores. */
    private interface Step {
        void run(Matmul product, long group, int b, long scratch);
    }

    /** Gives a thread's part its memory and its request. */
    private void blocks(long from, long to, long scratchBytes, Step step) {
        Matmul product = new Matmul(ElementType.F32, ElementType.F32, 1, 1, 1);
        Block scratch = HostAllocator.shared().allocate(scratchBytes);
        try {
            for (long i = from; i < to; i++) {
                step.run(product, i / grid.blocks(), (int) (i % grid.blocks()), scratch.address());
            }
        } finally {
            HostAllocator.shared().free(scratch);
        }
    }

    void forward(Tensor y, Tensor logs) {
        long bytes = 4 * grid.heads() * (grid.scores() + grid.queries());
        Parallel.forRange(grid.groups() * grid.blocks(), 1, (from, to) -> blocks(from, to, bytes,
                (product, group, b, s) -> forward(product, group, b, s, y, logs)));
    }

    private void forward(Matmul product, long group, int b, long s, Tensor y, Tensor logs) {
        long head = grid.head(group);
        int heads = grid.heads(group);
        int n = grid.queries(b);
        int keys = grid.keys(b);
        int pitch = AttentionGrid.pitch(keys);
        int first = grid.first(b);
        scores(product, group, b, s);
        long factors = s + 4L * heads * n * pitch;
        for (int h = 0; h < heads; h++) {
            softmax(head + h, b, s + 4L * h * n * pitch, factors + 4L * h * n, logs);
        }
        product.sizes(n, depth, keys).left(s, pitch, 1).right(grid.at(v, head, 0), AttentionGrid.row(v), 1)
                .result(grid.at(y, head, first), AttentionGrid.row(y))
                .batch(heads, (long) n * pitch, grid.step(v), grid.step(y)).run();
        long step = 4 * AttentionGrid.row(y);
        for (int h = 0; h < heads; h++) {
            long row = grid.at(y, head + h, first);
            for (int r = 0; r < n; r++, row += step) {
                rows.scale(row, depth, getFloat(factors + 4L * (h * n + r)));
            }
        }
    }

    /** Replaces scores by their exponentials, and keeps the factors that make them weights. */
    private void softmax(long head, int b, long scores, long factors, Tensor logs) {
        int keys = grid.keys(b);
        int first = grid.first(b);
        long bias = bias(head, first);
        long log = logs.address() + 4 * (head * queries + first);
        for (int r = 0; r < grid.queries(b); r++, bias += biasStep(), log += 4) {
            long row = scores + 4L * r * AttentionGrid.pitch(keys);
            int n = grid.visible(first + r, keys);
            mask(row, n, bias);
            float max = rows.max(row, n, seenScale);
            float sum = rows.exponentials(row, n, keys, seenScale, max == Float.NEGATIVE_INFINITY ? 0 : max);
            putFloat(factors + 4L * r, sum == 0 ? 0 : 1 / sum);
            putFloat(log, sum == 0 ? Float.NEGATIVE_INFINITY : (float) (max + StrictMath.log(sum)));
        }
    }

    /** Blocks run from the last to the first, so that the first to add to gradients of keys writes all of them. */
    void backward(Tensor g, Tensor y, Tensor logs, Tensor[] gradients) {
        Tensor[] given = {g, y, logs};
        int blocks = grid.blocks();
        long bytes = 8 * grid.heads() * grid.scores();
        Parallel.forRange(grid.groups(), 1, (from, to) -> blocks(from * blocks, to * blocks, bytes,
                (product, group, i, s) -> backward(product, group, blocks - 1 - i, s, given, gradients)));
    }

    private void backward(Matmul product, long group, int b, long s, Tensor[] given, Tensor[] gradients) {
        long head = grid.head(group);
        int heads = grid.heads(group);
        int first = grid.first(b);
        int n = grid.queries(b);
        int keys = grid.keys(b);
        int pitch = AttentionGrid.pitch(keys);
        long distance = (long) n * pitch;
        long slopes = s + 4 * heads * distance;
        Tensor g = given[0];
        long gRows = grid.at(g, head, first);
        scores(product, group, b, s);
        product.sizes(n, keys, depth).left(gRows, AttentionGrid.row(g), 1)
                .right(grid.at(v, head, 0), 1, AttentionGrid.row(v)).result(slopes, pitch)
                .batch(heads, grid.step(g), grid.step(v), distance).run();
        for (int h = 0; h < heads; h++) {
            scoreGradients(head + h, b, s + 4 * h * distance, slopes + 4 * h * distance, given);
        }
        Tensor dq = gradients[0];
        product.sizes(n, width, keys).left(slopes, pitch, 1).right(grid.at(k, head, 0), AttentionGrid.row(k), 1)
                .result(grid.at(dq, head, first), AttentionGrid.row(dq))
                .batch(heads, distance, grid.step(k), grid.step(dq)).run();
        boolean add = b + 1 < grid.blocks();
        if (!add) {
            clearUnseen(gradients, head, heads, keys);
        }
        Tensor dk = gradients[1];
        product.sizes(keys, width, n).left(slopes, 1, pitch).right(grid.at(q, head, first), AttentionGrid.row(q), 1)
                .result(grid.at(dk, head, 0), AttentionGrid.row(dk)).accumulate(add)
                .batch(heads, distance, grid.step(q), grid.step(dk)).run();
        Tensor dv = gradients[2];
        product.sizes(keys, depth, n).left(s, 1, pitch).right(gRows, AttentionGrid.row(g), 1)
                .result(grid.at(dv, head, 0), AttentionGrid.row(dv)).accumulate(add)
                .batch(heads, distance, grid.step(g), grid.step(dv)).run();
    }

    /** Clears gradients of keys that no query sees. */
    private void clearUnseen(Tensor[] gradients, long head, int heads, int seen) {
        for (int i = 1; i < 3; i++) {
            for (int h = 0; h < heads; h++) {
                for (int key = seen; key < k.size(-2); key++) {
                    rows.clear(grid.at(gradients[i], head + h, key), (int) gradients[i].size(-1));
                }
            }
        }
    }

    /** Replaces scores by the attention weights, and their gradients by those of the scores. */
    private void scoreGradients(long head, int b, long weights, long slopes, Tensor[] given) {
        int keys = grid.keys(b);
        int first = grid.first(b);
        long bias = bias(head, first);
        long gRow = grid.at(given[0], head, first);
        long yRow = grid.at(given[1], head, first);
        long logs = given[2].address() + 4 * (head * queries + first);
        for (int r = 0; r < grid.queries(b); r++, bias += biasStep()) {
            long offset = 4L * r * AttentionGrid.pitch(keys);
            float log = getFloat(logs + 4L * r);
            int n = log == Float.NEGATIVE_INFINITY ? 0 : grid.visible(first + r, keys);
            float dot = rows.dot(gRow, yRow, depth);
            mask(weights + offset, n, bias);
            rows.gradients(weights + offset, slopes + offset, n, keys, seenScale, log, dot, scale);
            gRow += 4 * AttentionGrid.row(given[0]);
            yRow += 4 * AttentionGrid.row(given[1]);
        }
    }

    private void scores(Matmul product, long group, int b, long to) {
        long head = grid.head(group);
        int n = grid.queries(b);
        int keys = grid.keys(b);
        int pitch = AttentionGrid.pitch(keys);
        product.sizes(n, keys, width).left(grid.at(q, head, grid.first(b)), AttentionGrid.row(q), 1)
                .right(grid.at(k, head, 0), 1, AttentionGrid.row(k)).result(to, pitch)
                .batch(grid.heads(group), grid.step(q), grid.step(k), (long) n * pitch).run();
    }

    private void mask(long scores, int n, long bias) {
        if (bias != 0) {
            rows.mask(scores, n, scale, bias);
        } else if (scale == 0) {
            rows.scale(scores, n, scale);
        }
    }

    private long bias(long head, int query) {
        return mask == null ? 0 : mask.rank() == 1 ? mask.address() : grid.at(mask, head, query);
    }

    private long biasStep() {
        return mask == null || mask.rank() == 1 || mask.size(-2) == 1 ? 0 : 4 * mask.strides()[mask.rank() - 2];
    }
}
