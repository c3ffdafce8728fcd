package dev.starling.tensor.cpu.rows;

import dev.starling.tensor.spi.VectorApi;

/**
 * The inner loops over rows that the CPU's kernels call: one implementation with vectors and one in plain Java. This is
 * the only class, besides the vector loops themselves, that may cause classes that use the Vector API to be loaded.
 *
 * @param matrix sums, extremes and moments of columns
 * @param softmax softmax and related functions of rows
 * @param layerNorm layer normalisation of rows
 * @param attention rows of attention scores
 * @param pool pooling of images whose channels are adjacent
 * @param carries the loop of {@link FiniteScan}
 */
public record RowLoops(Rows matrix, SoftmaxRows softmax, LayerNormRows layerNorm, AttentionRows attention,
        PoolRows pool, FiniteScan.Carries carries) {
    /** Plain Java, which defines the results. */
    public static final RowLoops SCALAR = new RowLoops(new ScalarRows(), new ScalarSoftmaxRows(),
            new ScalarLayerNormRows(), new ScalarAttentionRows(), new ScalarPoolRows(), FiniteScan::carries);

    /** The fastest loops that this process can run; {@link VectorApi#obstacle} says why these are the scalar ones. */
    public static final RowLoops FASTEST = VectorApi.isPresent() ? vector() : SCALAR;

    private static RowLoops vector() {
        return new RowLoops(new VectorRows(), new VectorSoftmaxRows(), new VectorLayerNormRows(),
                new VectorAttentionRows(), new VectorPoolRows(), VectorFiniteScan::carries);
    }
}
