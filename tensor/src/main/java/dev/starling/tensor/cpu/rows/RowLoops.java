package dev.starling.tensor.cpu.rows;

import dev.starling.tensor.cpu.jit.RowLoop;
import dev.starling.tensor.spi.VectorApi;
import java.util.List;
import java.util.stream.Stream;

/**
 * The inner loops over rows that the CPU's kernels call: in machine code, with the Vector API and in plain Java. It is
 * the only class, besides the vector loops themselves, that may cause classes that use the Vector API to be loaded.
 *
 * @param matrix sums, extremes and moments of columns
 * @param softmax softmax and related functions of rows
 * @param layerNorm layer normalisation of rows
 * @param attention rows of attention scores
 * @param pool pooling of images whose channels are adjacent
 * @param winograd transforms of tiles, for the largest tiles first
 * @param carries the loop of {@link FiniteScan}
 */
public record RowLoops(Rows matrix, SoftmaxRows softmax, LayerNormRows layerNorm, AttentionRows attention,
        PoolRows pool, List<WinogradTiles> winograd, FiniteScan.Carries carries) {
    /** Plain Java, which defines the results. */
    public static final RowLoops SCALAR = new RowLoops(new ScalarRows(), new ScalarSoftmaxRows(),
            new ScalarLayerNormRows(), new ScalarAttentionRows(), new ScalarPoolRows(), List.of(), FiniteScan::carries);

    /** The fastest loops that this process can run: in machine code, with the Vector API, or the scalar ones. */
    public static final RowLoops FASTEST = RowLoop.isAvailable() ? machine() : Bytecode.LOOPS;

    /** Returns all loops that this process can run. */
    public static List<RowLoops> all() {
        return Stream.of(SCALAR, Bytecode.LOOPS, FASTEST).distinct().toList();
    }

    /** The fastest loops without machine code; loading the Vector API takes long. */
    static final class Bytecode {
        static final RowLoops LOOPS = VectorApi.isPresent() ? vector() : SCALAR;
    }

    private static RowLoops machine() {
        return new RowLoops(new MachineRows(), new MachineSoftmaxRows(), new MachineLayerNormRows(),
                new MachineAttentionRows(), new MachinePoolRows(),
                List.of(new MachineWinogradTiles(4), new MachineWinogradTiles(2)), new MachineFiniteScan());
    }

    private static RowLoops vector() {
        return new RowLoops(new VectorRows(), new VectorSoftmaxRows(), new VectorLayerNormRows(),
                new VectorAttentionRows(), new VectorPoolRows(), List.of(new VectorWinogradTiles()),
                VectorFiniteScan::carries);
    }
}
