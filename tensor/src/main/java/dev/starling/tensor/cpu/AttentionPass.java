package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.getFloat;
import static dev.starling.tensor.host.HostMemory.putFloat;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.Matmul;
import dev.starling.tensor.cpu.rows.AttentionRows;
import dev.starling.tensor.cpu.rows.ScoreBlock;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.host.IdlePool;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.spi.Block;
import java.lang.foreign.ValueLayout;
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

    /**
     * What a thread's part needs; later parts reuse it: a request, blocks of scores, and addresses of lists with an
     * element for each query of a group's block, of scores, and of their slopes.
     */
    private static final class Space {
        private static final IdlePool<Space> IDLE = new IdlePool<>();

        private final Matmul product = new Matmul(ElementType.F32, ElementType.F32, 1, 1, 1);
        private final ScoreBlock block = new ScoreBlock();
        private final ScoreBlock part = new ScoreBlock();
        private long numbers;
        private long seen;
        private long shifts;
        private long sums;
        private long scores;
        private long slopes;

        static Space acquire() {
            Space idle = IDLE.take();
            return idle == null ? new Space() : idle;
        }

        /** Divides memory with {@code matrices} of scores and lists of these sizes in bytes. */
        void use(long memory, int matrices, long matrix, long list) {
            scores = memory;
            slopes = memory + (matrices - 1) * matrix;
            seen = memory + matrices * matrix;
            shifts = seen + list;
            sums = shifts + list;
            numbers = sums + list;
        }
    }

    /** Work on a block of a group. */
    private interface Step {
        void run(Space space, long group, int b);
    }

    /** Gives a thread's part its memory and its request; {@code matrices} is the number of matrices of scores. */
    private void blocks(long from, long to, int matrices, Step step) {
        long list = 4L * grid.heads() * grid.queries();
        long matrix = 4 * grid.heads() * grid.scores();
        int keys = Math.toIntExact(k.size(-2));
        Space space = Space.acquire();
        Block scratch = HostAllocator.shared().allocate(matrices * matrix + 3 * list + 4L * keys);
        try {
            space.use(scratch.address(), matrices, matrix, list);
            for (int i = 0; i < keys; i++) {
                putInt(space.numbers, i, i);
            }
            for (long i = from; i < to; i++) {
                step.run(space, i / grid.blocks(), (int) (i % grid.blocks()));
            }
        } finally {
            HostAllocator.shared().free(scratch);
            Space.IDLE.give(space);
        }
    }

    private static void putInt(long list, int i, int value) {
        HostMemory.ALL.set(ValueLayout.JAVA_INT, list + 4L * i, value);
    }

    /** Returns the forward pass. */
    Runnable forward(Tensor y, Tensor logs) {
        Step step = (space, group, b) -> forward(space, group, b, y, logs);
        RangeTask task = (from, to) -> blocks(from, to, 1, step);
        return () -> Parallel.forRange(grid.groups() * grid.blocks(), 1, task);
    }

    private void forward(Space space, long group, int b, Tensor y, Tensor logs) {
        long head = grid.head(group);
        int heads = grid.heads(group);
        int n = grid.queries(b);
        int keys = grid.keys(b);
        int first = grid.first(b);
        ScoreBlock scores = scores(space, group, b);
        for (int h = 0; h < heads; h++) {
            for (int r = 0; r < n; r++) {
                putInt(space.seen, h * n + r, grid.visible(first + r, keys));
            }
        }
        softmax(space, scores, n, logs.address() + 4 * (head * queries + first));
        space.product.sizes(n, depth, keys).left(scores.address(), scores.pitch(), 1)
                .right(grid.at(v, head, 0), AttentionGrid.row(v), 1)
                .result(grid.at(y, head, first), AttentionGrid.row(y))
                .batch(heads, (long) n * scores.pitch(), grid.step(v), grid.step(y)).run();
        for (int h = 0; h < heads; h++) {
            rows.scale(grid.at(y, head + h, first), AttentionGrid.row(y), n, depth, space.sums + 4L * h * n);
        }
    }

    /**
     * Replaces scores of heads with {@code n} queries each by their exponentials, and sums by the factors that make
     * them weights; {@code log} is the address of the first head's logarithms.
     */
    private void softmax(Space space, ScoreBlock scores, int n, long log) {
        rows.max(scores, seenScale, space.shifts);
        for (int i = 0; i < scores.rows(); i++) {
            float max = getFloat(space.shifts + 4L * i);
            putFloat(space.shifts + 4L * i, max == Float.NEGATIVE_INFINITY ? 0 : -max);
        }
        rows.exponentials(scores, seenScale, space.shifts, space.sums);
        for (int i = 0; i < scores.rows(); i++) {
            float sum = getFloat(space.sums + 4L * i);
            float max = -getFloat(space.shifts + 4L * i);
            putFloat(space.sums + 4L * i, sum == 0 ? 0 : 1 / sum);
            putFloat(log + 4L * (i / n * queries + i % n),
                    sum == 0 ? Float.NEGATIVE_INFINITY : (float) (max + StrictMath.log(sum)));
        }
    }

    /**
     * Returns the backward pass. Blocks run from the last to the first, so that the first to add to gradients of keys
     * writes all of them.
     */
    Runnable backward(Tensor g, Tensor y, Tensor logs, Tensor[] gradients) {
        Tensor[] given = {g, y, logs};
        int blocks = grid.blocks();
        Step step = (space, group, i) -> backward(space, group, blocks - 1 - i, given, gradients);
        RangeTask task = (from, to) -> blocks(from * blocks, to * blocks, 2, step);
        return () -> Parallel.forRange(grid.groups(), 1, task);
    }

    private void backward(Space space, long group, int b, Tensor[] given, Tensor[] gradients) {
        long head = grid.head(group);
        int heads = grid.heads(group);
        int first = grid.first(b);
        int n = grid.queries(b);
        int keys = grid.keys(b);
        ScoreBlock weights = scores(space, group, b);
        int pitch = weights.pitch();
        long distance = (long) n * pitch;
        long slopes = space.slopes;
        Matmul product = space.product;
        Tensor g = given[0];
        long gRows = grid.at(g, head, first);
        product.sizes(n, keys, depth).left(gRows, AttentionGrid.row(g), 1)
                .right(grid.at(v, head, 0), 1, AttentionGrid.row(v)).result(slopes, pitch)
                .batch(heads, grid.step(g), grid.step(v), distance).run();
        scoreGradients(space, weights, group, b, given);
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
        product.sizes(keys, depth, n).left(weights.address(), 1, pitch).right(gRows, AttentionGrid.row(g), 1)
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
    private void scoreGradients(Space space, ScoreBlock scores, long group, int b, Tensor[] given) {
        long head = grid.head(group);
        int n = grid.queries(b);
        int first = grid.first(b);
        for (int h = 0; h < grid.heads(group); h++) {
            long logs = given[2].address() + 4 * ((head + h) * queries + first);
            for (int r = 0; r < n; r++) {
                float log = getFloat(logs + 4L * r);
                boolean blind = log == Float.NEGATIVE_INFINITY;
                putInt(space.seen, h * n + r, blind ? 0 : grid.visible(first + r, scores.keys()));
                putFloat(space.shifts + 4L * (h * n + r), -log);
            }
            rows.dot(grid.at(given[0], head + h, first), AttentionGrid.row(given[0]),
                    grid.at(given[1], head + h, first), AttentionGrid.row(given[1]), n, depth,
                    space.sums + 4L * h * n);
        }
        rows.gradients(scores, space.slopes, seenScale, space.shifts, space.sums, scale);
    }

    /** Computes the scores of all heads of a group, with their masks. */
    private ScoreBlock scores(Space space, long group, int b) {
        long head = grid.head(group);
        int heads = grid.heads(group);
        int first = grid.first(b);
        int n = grid.queries(b);
        int keys = grid.keys(b);
        int pitch = AttentionGrid.pitch(keys);
        space.product.sizes(n, keys, width).left(grid.at(q, head, first), AttentionGrid.row(q), 1)
                .right(grid.at(k, head, 0), 1, AttentionGrid.row(k)).result(space.scores, pitch)
                .batch(heads, grid.step(q), grid.step(k), (long) n * pitch).run();
        ScoreBlock scores = space.block.scores(space.scores, pitch, heads * n, keys).keys(space.seen, space.numbers);
        for (int h = 0; mask != null && h < heads; h++) {
            long bias = mask.rank() == 1 ? mask.address() : grid.at(mask, head + h, first);
            long step = mask.rank() == 1 || mask.size(-2) == 1 ? 0 : mask.strides()[mask.rank() - 2];
            rows.mask(space.part.part(scores, h * n, n), scale, bias, step);
        }
        if (mask == null && scale == 0) {
            for (int i = 0; i < scores.rows(); i++) {
                putFloat(space.sums + 4L * i, scale);
            }
            rows.scale(scores.address(), pitch, scores.rows(), keys, space.sums);
        }
        return scores;
    }
}
