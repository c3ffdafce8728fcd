package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.putFloat;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.rows.AttentionRows;
import dev.starling.tensor.cpu.rows.ScoreBlock;
import dev.starling.tensor.host.HostAllocator;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.host.IdlePool;
import dev.starling.tensor.host.RangeWork;
import dev.starling.tensor.op.Attention;
import dev.starling.tensor.spi.Block;
import java.lang.foreign.MemorySegment;
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
    private static volatile int[] numbers = {};

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
    private final boolean causal;

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
        causal = op.causal();
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

        private final HeadProduct product = new HeadProduct();
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

    /** Work on the blocks of all groups, in their order; each range has memory and a request of its own. */
    private abstract class Blocks extends RangeWork {
        private final int together;
        private final int matrices;
        private final Tensor[] operands;

        /**
         * Makes the work.
         *
         * @param n parts that threads divide
         * @param together blocks of a part, which a thread processes one after the other
         * @param matrices the number of matrices of scores
         */
        Blocks(long n, int together, int matrices, Tensor... operands) {
            super(n, 1);
            this.together = together;
            this.matrices = matrices;
            this.operands = operands;
        }

        abstract void block(Space space, long group, int b);

        @Override
        public void run(long from, long to) {
            long list = 4L * grid.heads() * grid.queries();
            long matrix = 4 * grid.heads() * grid.scores();
            int count = Math.max(queries, Math.toIntExact(k.size(-2))) + 1;
            Space space = Space.acquire();
            Block scratch = HostAllocator.shared().allocate(matrices * matrix + 3 * list + 4L * count);
            try {
                space.use(scratch.address(), matrices, matrix, list);
                MemorySegment.copy(numbers(count), 0, HostMemory.ALL, ValueLayout.JAVA_INT, space.numbers, count);
                space.product.operands(grid, operands);
                int blocks = grid.blocks();
                long group = from * together / blocks;
                int b = (int) (from * together % blocks);
                for (int left = Math.toIntExact((to - from) * together); left > 0; left--) {
                    block(space, group, b);
                    b = b + 1 == blocks ? 0 : b + 1;
                    group += b == 0 ? 1 : 0;
                }
            } finally {
                HostAllocator.shared().free(scratch);
                Space.IDLE.give(space);
            }
        }
    }

    /** Returns the numbers 0, 1, …, at least {@code count}. */
    private static int[] numbers(int count) {
        int[] known = numbers;
        if (known.length < count) {
            known = new int[Math.max(count, 2 * known.length)];
            for (int i = 0; i < known.length; i++) {
                known[i] = i;
            }
            numbers = known;
        }
        return known;
    }

    /** Returns the forward pass. */
    Runnable forward(Tensor y, Tensor logs) {
        Tensor[] operands = {q, k, v, y};
        return new Blocks(grid.groups() * grid.blocks(), 1, 1, operands) {
            @Override
            void block(Space space, long group, int b) {
                forward(space, group, b, operands, logs);
            }
        };
    }

    private void forward(Space space, long group, int b, Tensor[] operands, Tensor logs) {
        long head = grid.head(group);
        int heads = grid.heads(group);
        int n = grid.queries(b);
        int keys = grid.keys(b);
        int first = grid.first(b);
        HeadProduct product = space.product;
        product.move(grid, operands, head, first);
        ScoreBlock scores = scores(space, group, b);
        rows.seen(space.seen, space.numbers, heads, n, first, keys, causal);
        rows.max(scores, seenScale, space.shifts);
        rows.shifts(space.shifts, heads * n);
        rows.exponentials(scores, seenScale, space.shifts, space.sums);
        rows.factors(space.sums, space.shifts, heads, n, log(logs, head, first), queries);
        product.left(HeadProduct.SCORES, false).right(HeadProduct.V, false)
                .into(HeadProduct.Y, false, heads, n, depth, keys);
        for (int h = 0; h < heads; h++) {
            rows.scale(product.address(HeadProduct.Y, h), product.row(HeadProduct.Y), n, depth,
                    space.sums + 4L * h * n);
        }
    }

    /** Returns the address of a query's logarithm. */
    private long log(Tensor logs, long head, int query) {
        return logs.address() + 4 * (head * queries + query);
    }

    /**
     * Returns the backward pass. Blocks run from the last to the first, so that the first to add to gradients of keys
     * writes all of them.
     */
    Runnable backward(Tensor g, Tensor y, Tensor logs, Tensor[] gradients) {
        Tensor[] operands = {q, k, v, y, g, gradients[0], gradients[1], gradients[2]};
        int blocks = grid.blocks();
        return new Blocks(grid.groups(), blocks, 2, operands) {
            @Override
            void block(Space space, long group, int i) {
                backward(space, group, blocks - 1 - i, operands, logs);
            }
        };
    }

    private void backward(Space space, long group, int b, Tensor[] operands, Tensor logs) {
        long head = grid.head(group);
        int heads = grid.heads(group);
        int n = grid.queries(b);
        int keys = grid.keys(b);
        HeadProduct product = space.product;
        product.move(grid, operands, head, grid.first(b));
        ScoreBlock weights = scores(space, group, b);
        product.left(HeadProduct.G, false).right(HeadProduct.V, true)
                .into(HeadProduct.SLOPES, false, heads, n, keys, depth);
        scoreGradients(space, weights, group, b, logs);
        product.left(HeadProduct.SLOPES, false).right(HeadProduct.K, false)
                .into(HeadProduct.DQ, false, heads, n, width, keys);
        boolean add = b + 1 < grid.blocks();
        if (!add) {
            clearUnseen(operands, head, heads, keys);
        }
        product.left(HeadProduct.SLOPES, true).right(HeadProduct.Q, false)
                .into(HeadProduct.DK, add, heads, keys, width, n);
        product.left(HeadProduct.SCORES, true).right(HeadProduct.G, false)
                .into(HeadProduct.DV, add, heads, keys, depth, n);
    }

    /** Clears gradients of keys that no query sees. */
    private void clearUnseen(Tensor[] operands, long head, int heads, int seen) {
        for (int i = HeadProduct.DK; i <= HeadProduct.DV; i++) {
            for (int h = 0; h < heads; h++) {
                for (int key = seen; key < k.size(-2); key++) {
                    rows.clear(grid.at(operands[i], head + h, key), (int) operands[i].size(-1));
                }
            }
        }
    }

    /** Replaces scores by the attention weights, and their gradients by those of the scores. */
    private void scoreGradients(Space space, ScoreBlock scores, long group, int b, Tensor logs) {
        long head = grid.head(group);
        int n = grid.queries(b);
        int first = grid.first(b);
        HeadProduct product = space.product;
        int heads = grid.heads(group);
        rows.seen(space.seen, space.numbers, heads, n, first, scores.keys(), causal);
        rows.shifts(log(logs, head, first), queries, heads, n, space.shifts, space.seen);
        for (int h = 0; h < heads; h++) {
            rows.dot(product.address(HeadProduct.G, h), product.row(HeadProduct.G),
                    product.address(HeadProduct.Y, h), product.row(HeadProduct.Y), n, depth,
                    space.sums + 4L * h * n);
        }
        rows.gradients(scores, space.slopes, seenScale, space.shifts, space.sums, scale);
    }

    /** Computes the scores of all heads of a group, with their masks. */
    private ScoreBlock scores(Space space, long group, int b) {
        int heads = grid.heads(group);
        int n = grid.queries(b);
        int keys = grid.keys(b);
        int pitch = AttentionGrid.pitch(keys);
        HeadProduct product = space.product;
        product.scores(space.scores, space.slopes, n, pitch);
        product.left(HeadProduct.Q, false).right(HeadProduct.K, true)
                .into(HeadProduct.SCORES, false, heads, n, keys, width);
        ScoreBlock scores = space.block.scores(space.scores, pitch, heads * n, keys).keys(space.seen, space.numbers);
        if (mask != null) {
            mask(space, scores, grid.head(group), heads, grid.first(b), n);
        } else if (scale == 0) {
            for (int i = 0; i < scores.rows(); i++) {
                putFloat(space.sums + 4L * i, scale);
            }
            rows.scale(scores.address(), pitch, scores.rows(), keys, space.sums);
        }
        return scores;
    }

    /** Scales the scores of a group's heads and adds the mask. */
    private void mask(Space space, ScoreBlock scores, long head, int heads, int first, int n) {
        Tensor added = Objects.requireNonNull(mask);
        for (int h = 0; h < heads; h++) {
            long bias = added.rank() == 1 ? added.address() : grid.at(added, head + h, first);
            long step = added.rank() == 1 || added.size(-2) == 1 ? 0 : added.stride(added.rank() - 2);
            rows.mask(space.part.part(scores, h * n, n), scale, bias, step);
        }
    }
}
