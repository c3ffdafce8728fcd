package dev.starling.distributed.codec;

import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.distributed.bucket.BucketReduction;
import dev.starling.distributed.bucket.GradientBucket;
import dev.starling.distributed.bucket.GradientBucket.Gradient;
import dev.starling.tensor.DType;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/**
 * The sum of each rank's largest elements. Rank r's chunk of the exchange contains k positions, then k values; a
 * position is that of an element among all elements of the bucket's gradients, without padding.
 */
final class SparseSum implements BucketReduction {
    private static final long LINE = 64;

    private final GradientBucket bucket;
    private final List<Gradient> gradients;
    /** By gradient, what this rank has not sent yet. */
    private final float[][] residuals;
    private final int k;
    private final long chunkBytes;
    private final SymmetricBuffer buffer;
    private final Work work;
    private final Magnitudes magnitudes = new Magnitudes();
    private final int[] positions;
    private final float[] values;
    /** All elements of the bucket's gradients, without padding. */
    private final float[] elements;

    SparseSum(GradientBucket bucket, double fraction) {
        this.bucket = bucket;
        gradients = bucket.gradients();
        residuals = gradients.stream().map(bucket::residual).toArray(float[][]::new);
        elements = new float[gradients.stream().mapToInt(Gradient::count).sum()];
        k = (int) Math.min(elements.length, Math.ceil(fraction * elements.length));
        positions = new int[k];
        values = new float[k];
        chunkBytes = Math.max(LINE, Math.ceilDiv(k * 2L * Float.BYTES, LINE) * LINE);
        long bytes = bucket.world() * chunkBytes;
        buffer = bucket.collectives().symmetric(bytes);
        work = bucket.collectives().prepareAllGather(buffer, 0, bytes, DType.U8, "the largest " + k + " of "
                + elements.length + " elements of " + bucket.label());
    }

    @Override
    public void start() {
        copy(true);
        int at = 0;
        for (float[] residual : residuals) {
            for (int i = 0; i < residual.length; i++) {
                residual[i] += elements[at + i];
            }
            at += residual.length;
        }
        select(magnitudes.largest(residuals, k));
        long chunk = bucket.rank() * chunkBytes;
        MemorySegment.copy(positions, 0, buffer.memory(), ValueLayout.JAVA_INT, chunk, k);
        MemorySegment.copy(values, 0, buffer.memory(), ValueLayout.JAVA_FLOAT, chunk + (long) k * Integer.BYTES, k);
        work.start();
    }

    /** Copies all gradients from the bucket's memory or to it. */
    private void copy(boolean fromMemory) {
        int at = 0;
        for (int g = 0; g < residuals.length; g++) {
            long offset = gradients.get(g).offset() * Float.BYTES;
            if (fromMemory) {
                MemorySegment.copy(bucket.memory(), ValueLayout.JAVA_FLOAT, offset, elements, at, residuals[g].length);
            } else {
                MemorySegment.copy(elements, at, bucket.memory(), ValueLayout.JAVA_FLOAT, offset, residuals[g].length);
            }
            at += residuals[g].length;
        }
    }

    /** Selects all elements above a threshold and the first ones at it, and keeps the others for the next step. */
    private void select(int threshold) {
        boolean finite = threshold < Magnitudes.INFINITE;
        int selected = 0;
        int ties = magnitudes.atThreshold();
        int position = 0;
        for (float[] residual : residuals) {
            for (int i = 0; i < residual.length; i++, position++) {
                int magnitude = Magnitudes.of(residual[i]);
                if (magnitude > threshold || magnitude == threshold && ties-- > 0) {
                    positions[selected] = position;
                    values[selected++] = residual[i];
                    residual[i] = 0;
                } else if (!finite && magnitude >= Magnitudes.INFINITE) {
                    // More elements are not finite than are sent: those sent suffice to refuse the step.
                    residual[i] = 0;
                }
            }
        }
    }

    @Override
    public boolean proceed(Duration timeout) {
        work.await(timeout);
        Arrays.fill(elements, 0);
        for (int r = 0; r < bucket.world(); r++) {
            long chunk = r * chunkBytes;
            MemorySegment.copy(buffer.memory(), ValueLayout.JAVA_INT, chunk, positions, 0, k);
            MemorySegment.copy(buffer.memory(), ValueLayout.JAVA_FLOAT, chunk + (long) k * Integer.BYTES, values, 0, k);
            for (int i = 0; i < k; i++) {
                elements[positions[i]] += values[i];
            }
        }
        copy(false);
        return false;
    }

    @Override
    public void close() {
        buffer.close();
    }
}
