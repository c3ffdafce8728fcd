package dev.starling.distributed.codec;

import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.distributed.bucket.BucketReduction;
import dev.starling.distributed.bucket.GradientBucket;
import dev.starling.distributed.bucket.GradientBucket.Gradient;
import dev.starling.tensor.DType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The sum of low-rank approximations. The first all-reduce sums all P and whatever is not compressed, the second one
 * all Q.
 */
final class LowRankSum implements BucketReduction {
    private static final long LINE = 64;

    private final GradientBucket bucket;
    private final List<Gradient> exact = new ArrayList<>();
    private final List<LowRankMatrix> matrices = new ArrayList<>();
    private final SymmetricBuffer buffer;
    private final MemorySegment first;
    private final MemorySegment second;
    private final Work firstSum;
    /** {@code null} if nothing is compressed. */
    private final @Nullable Work secondSum;
    private boolean inSecond;

    LowRankSum(GradientBucket bucket, int rank, long seed) {
        this.bucket = bucket;
        long exactCount = 0;
        long ps = 0;
        long qs = 0;
        for (Gradient gradient : bucket.gradients()) {
            if (LowRankMatrix.pays(gradient, rank)) {
                LowRankMatrix matrix = new LowRankMatrix(gradient, bucket.residual(gradient), rank, seed);
                matrices.add(matrix);
                ps += matrix.pCount();
                qs += matrix.qCount();
            } else {
                exact.add(gradient);
                exactCount += gradient.count();
            }
        }
        long firstBytes = (exactCount + ps) * Float.BYTES;
        long secondAt = Math.ceilDiv(firstBytes, LINE) * LINE;
        buffer = bucket.collectives().symmetric(Math.max(LINE, secondAt + qs * Float.BYTES));
        first = buffer.memory().asSlice(0, firstBytes);
        second = buffer.memory().asSlice(secondAt, qs * Float.BYTES);
        firstSum = bucket.collectives().prepareAllReduce(buffer, 0, exactCount + ps, DType.F32, ReduceOp.SUM,
                "factors of rank " + rank + " of " + bucket.label());
        secondSum = matrices.isEmpty() ? null : bucket.collectives().prepareAllReduce(buffer, secondAt, qs, DType.F32,
                ReduceOp.SUM, "second factors of rank " + rank + " of " + bucket.label());
    }

    @Override
    public void start() {
        inSecond = false;
        long at = copyExact(bucket.memory(), true);
        for (int i = 0; i < matrices.size(); i++) {
            LowRankMatrix matrix = matrices.get(i);
            matrix.project(bucket.memory());
            MemorySegment.copy(matrix.p(), 0, first, ValueLayout.JAVA_FLOAT, at * Float.BYTES, matrix.pCount());
            at += matrix.pCount();
        }
        firstSum.start();
    }

    /** Copies what is not compressed to or from the exchange; returns its number of elements. */
    private long copyExact(MemorySegment memory, boolean toExchange) {
        long at = 0;
        for (int i = 0; i < exact.size(); i++) {
            long own = exact.get(i).offset() * Float.BYTES;
            long bytes = (long) exact.get(i).count() * Float.BYTES;
            MemorySegment.copy(toExchange ? memory : first, toExchange ? own : at, toExchange ? first : memory,
                    toExchange ? at : own, bytes);
            at += bytes;
        }
        return at / Float.BYTES;
    }

    @Override
    public boolean proceed(Duration timeout) {
        if (secondSum == null) {
            firstSum.await(timeout);
            copyExact(bucket.memory(), false);
            return false;
        }
        if (inSecond) {
            secondSum.await(timeout);
            readSecond();
            return false;
        }
        firstSum.await(timeout);
        readFirst();
        inSecond = true;
        secondSum.start();
        return true;
    }

    private void readFirst() {
        long at = copyExact(bucket.memory(), false);
        long qAt = 0;
        for (int i = 0; i < matrices.size(); i++) {
            LowRankMatrix matrix = matrices.get(i);
            MemorySegment.copy(first, ValueLayout.JAVA_FLOAT, at * Float.BYTES, matrix.p(), 0, matrix.pCount());
            matrix.projectBack();
            MemorySegment.copy(matrix.q(), 0, second, ValueLayout.JAVA_FLOAT, qAt * Float.BYTES, matrix.qCount());
            at += matrix.pCount();
            qAt += matrix.qCount();
        }
    }

    private void readSecond() {
        long at = 0;
        for (int i = 0; i < matrices.size(); i++) {
            LowRankMatrix matrix = matrices.get(i);
            MemorySegment.copy(second, ValueLayout.JAVA_FLOAT, at * Float.BYTES, matrix.q(), 0, matrix.qCount());
            matrix.write(bucket.memory());
            at += matrix.qCount();
        }
    }

    @Override
    public void close() {
        buffer.close();
    }
}
