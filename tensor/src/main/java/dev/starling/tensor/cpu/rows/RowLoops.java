package dev.starling.tensor.cpu.rows;

import dev.starling.tensor.cpu.jit.RowLoop;
import dev.starling.tensor.spi.VectorApi;
import java.util.List;
import java.util.stream.Stream;

/**
 * The inner loops over rows that the CPU's kernels call, in one of three forms. Each kind of loops is made at its first
 * use, because a process's first step has to wait for it. This is the only class, besides the vector loops themselves,
 * that may cause classes that use the Vector API to be loaded.
 */
public enum RowLoops {
    /** Plain Java, which defines the results. */
    SCALAR,
    /** With the Vector API, which takes long to load. */
    VECTOR,
    /** In machine code. */
    MACHINE;

    /** The fastest loops that this process can run. */
    public static final RowLoops FASTEST = RowLoop.isAvailable() ? MACHINE : bytecode();

    /** Returns all loops that this process can run. */
    public static List<RowLoops> all() {
        return Stream.of(SCALAR, bytecode(), FASTEST).distinct().toList();
    }

    /** Returns the fastest loops without machine code. */
    static RowLoops bytecode() {
        return VectorApi.isPresent() ? VECTOR : SCALAR;
    }

    /** Returns sums, extremes and moments of columns. */
    public Rows matrix() {
        return switch (this) {
            case SCALAR -> ScalarRows.LOOPS;
            case VECTOR -> VectorRows.LOOPS;
            case MACHINE -> MachineRows.LOOPS;
        };
    }

    /** Returns softmax and related functions of rows. */
    public SoftmaxRows softmax() {
        return switch (this) {
            case SCALAR -> ScalarSoftmaxRows.LOOPS;
            case VECTOR -> VectorSoftmaxRows.LOOPS;
            case MACHINE -> MachineSoftmaxRows.LOOPS;
        };
    }

    /** Returns layer normalisation of rows. */
    public LayerNormRows layerNorm() {
        return switch (this) {
            case SCALAR -> ScalarLayerNormRows.LOOPS;
            case VECTOR -> VectorLayerNormRows.LOOPS;
            case MACHINE -> MachineLayerNormRows.LOOPS;
        };
    }

    /** Returns loops over rows of attention scores. */
    public AttentionRows attention() {
        return switch (this) {
            case SCALAR -> ScalarAttentionRows.LOOPS;
            case VECTOR -> VectorAttentionRows.LOOPS;
            case MACHINE -> MachineAttentionRows.LOOPS;
        };
    }

    /** Returns pooling of images whose channels are adjacent. */
    public PoolRows pool() {
        return switch (this) {
            case SCALAR -> ScalarPoolRows.LOOPS;
            case VECTOR -> VectorPoolRows.LOOPS;
            case MACHINE -> MachinePoolRows.LOOPS;
        };
    }

    /** Returns transforms of tiles, for the largest tiles first. */
    public List<WinogradTiles> winograd() {
        return switch (this) {
            case SCALAR -> List.of();
            case VECTOR -> VectorWinogradTiles.LOOPS;
            case MACHINE -> MachineWinogradTiles.LOOPS;
        };
    }

    /** Returns the loop of {@link FiniteScan}. */
    FiniteScan.Carries carries() {
        return switch (this) {
            case SCALAR -> FiniteScan.SCALAR;
            case VECTOR -> VectorFiniteScan.LOOP;
            case MACHINE -> MachineFiniteScan.LOOP;
        };
    }
}
