package dev.starling.distributed.codec;

import dev.starling.distributed.bucket.GradientBucket.Gradient;
import dev.starling.tensor.Shape;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/**
 * One matrix of a bucket and its factors. Factors are stored by column: P as r rows of n elements, Q as r rows of m.
 */
final class LowRankMatrix {
    private final Gradient gradient;
    private final int n;
    private final int m;
    private final int r;
    /** What is left of earlier steps, and from {@link #project} to {@link #projectBack} the whole matrix. */
    private final float[] residual;
    private final float[] p;
    private final float[] q;
    /** A row of the product. */
    private final float[] row;
    private final Orthonormal orthonormal;
    /** Whether the sum of P is finite; the same on all ranks. */
    private boolean finite;

    LowRankMatrix(Gradient gradient, float[] residual, int rank, long seed) {
        this.gradient = gradient;
        this.residual = residual;
        Shape shape = gradient.shape();
        n = (int) shape.dim(0);
        m = gradient.count() / n;
        r = rank;
        p = new float[r * n];
        q = new float[r * m];
        row = new float[m];
        orthonormal = new Orthonormal(seed * 31 + gradient.index());
        orthonormal.apply(q, m, true);
    }

    /** Returns whether the factors of a gradient are smaller than the gradient. */
    static boolean pays(Gradient gradient, int rank) {
        Shape shape = gradient.shape();
        if (shape.rank() < 2 || gradient.count() == 0) {
            return false;
        }
        long rows = shape.dim(0);
        return rank * (rows + gradient.count() / rows) < gradient.count();
    }

    float[] p() {
        return p;
    }

    float[] q() {
        return q;
    }

    int pCount() {
        return p.length;
    }

    int qCount() {
        return q.length;
    }

    /** Adds this rank's gradient to what is left of earlier steps, and sets P = M Q. */
    void project(MemorySegment memory) {
        for (int i = 0; i < n; i++) {
            int begin = i * m;
            MemorySegment.copy(memory, ValueLayout.JAVA_FLOAT, (gradient.offset() + begin) * Float.BYTES, row, 0, m);
            for (int j = 0; j < m; j++) {
                residual[begin + j] += row[j];
            }
            for (int k = 0; k < r; k++) {
                p[k * n + i] = dot(begin, k * m);
            }
        }
    }

    /** Returns the product of a row of M and a column of Q. */
    private float dot(int begin, int column) {
        float a = 0;
        float b = 0;
        float c = 0;
        float d = 0;
        int j = 0;
        for (; j < m - 3; j += 4) {
            a += residual[begin + j] * q[column + j];
            b += residual[begin + j + 1] * q[column + j + 1];
            c += residual[begin + j + 2] * q[column + j + 2];
            d += residual[begin + j + 3] * q[column + j + 3];
        }
        for (; j < m; j++) {
            a += residual[begin + j] * q[column + j];
        }
        return a + b + (c + d);
    }

    /** Makes the columns of the sum of P orthonormal, sets Q = Mᵀ P, and keeps M - P Qᵀ for the next step. */
    void projectBack() {
        finite = true;
        for (float each : p) {
            finite &= Float.isFinite(each);
        }
        if (!finite) {
            Arrays.fill(residual, 0);
            return;
        }
        orthonormal.apply(p, n, false);
        Arrays.fill(q, 0);
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < r; k++) {
                addRow(p[k * n + i], residual, i * m, q, k * m);
            }
        }
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < r; k++) {
                addRow(-p[k * n + i], q, k * m, residual, i * m);
            }
        }
    }

    /** Adds {@code factor} times {@code m} elements to others. */
    private void addRow(float factor, float[] from, int at, float[] to, int toAt) {
        for (int j = 0; j < m; j++) {
            to[toAt + j] += factor * from[at + j];
        }
    }

    /** Writes P Qᵀ, with the sum of Q, as the sum of the gradient; the next step begins with this Q. */
    void write(MemorySegment memory) {
        for (int i = 0; i < n; i++) {
            Arrays.fill(row, finite ? 0 : Float.NaN);
            for (int k = 0; finite && k < r; k++) {
                addRow(p[k * n + i], q, k * m, row, 0);
            }
            MemorySegment.copy(row, 0, memory, ValueLayout.JAVA_FLOAT, (gradient.offset() + (long) i * m) * Float.BYTES,
                    m);
        }
        orthonormal.apply(q, m, true);
    }
}
