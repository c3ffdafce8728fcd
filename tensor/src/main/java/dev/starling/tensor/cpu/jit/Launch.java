package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * One call of a {@link FusedLoop}: receives the operands' addresses and strides and the parameters, merges dimensions,
 * and runs the kernel over tiles, on several threads if that pays. Each thread has one instance, which it reuses:
 * {@snippet :
 * Launch launch = Launch.of(loop);
 * launch.operand(0, x.address());
 * launch.operand(1, y.address());
 * launch.parameter(0, 0.1);
 * launch.runFlat(count);
 * }
 */
public final class Launch implements RangeTask {
    /** Number of elements per kernel call, which one thread computes; the JVM would compile longer loops late. */
    public static final int TILE = 1 << 14;
    private static final int MAX_RANK = 16;
    private static final ThreadLocal<Launch> CURRENT = ThreadLocal.withInitial(Launch::new);

    /** Every launch that {@link #of} returns has one. */
    @SuppressWarnings("NullAway.Init")
    private FusedLoop loop;
    private int operands;
    private final Frame frame = new Frame();
    private final StridedLoop strided = new StridedLoop();
    private boolean flat;
    private @Nullable Kernel kernel;
    /** The frame of the tile that this thread computes, and the tile's position in the outer dimensions. */
    private final Frame tileFrame = new Frame();
    private final long[] place = new long[MAX_RANK];

    private Launch() { }

    /** Returns this thread's launch, reset for a call of {@code loop}. */
    public static Launch of(FusedLoop loop) {
        Launch launch = CURRENT.get();
        launch.begin(loop);
        return launch;
    }

    private void begin(FusedLoop next) {
        Expression expression = next.expression();
        loop = next;
        operands = expression.operands();
        frame.ensure(3 * operands + expression.parameters().size());
    }

    /** Sets the address of operand {@code k}; inputs come first, then outputs. */
    public void operand(int k, long address) {
        frame.set(k, address);
    }

    /** Sets a parameter of a floating type. */
    public void parameter(int number, double value) {
        frame.set(3 * operands + number, Double.doubleToRawLongBits(value));
    }

    /** Sets a parameter of an integer type or bool, or the bits of a double. */
    public void parameter(int number, long value) {
        frame.set(3 * operands + number, value);
    }

    /** Computes {@code count} elements; all operands are contiguous. */
    public void runFlat(long count) {
        runFlat(count, loop.flat());
    }

    /** Computes {@code count} elements; inputs whose bits are set in {@code scalars} have a single element. */
    public void runFlat(long count, int scalars) {
        runFlat(count, scalars == 0 ? loop.flat() : loop.variant(FusedLoop.key(operands, scalars)));
    }

    private void runFlat(long count, FusedLoop.Variant variant) {
        if (count <= TILE) {
            if (count > 0) {
                variant.kernel().run(frame, 0, 1, 0, count);
            }
            return;
        }
        flat = true;
        kernel = variant.kernel();
        Parallel.forRange(count, variant.grain(), this);
        kernel = null;
    }

    /** Sets the shape that {@link #runStrided} computes, of at most 16 dimensions; operands with strides follow. */
    public void shape(long... dims) {
        strided.shape(dims, operands);
    }

    /** Sets the shape that {@link #runStrided} computes; operands with strides follow. */
    public void shape(Shape shape) {
        strided.shape(shape, operands);
    }

    /** Sets an operand's address, shape and strides. */
    public void operand(int k, Tensor x) {
        frame.set(k, x.address());
        strided.operand(k, x);
    }

    /**
     * Sets an operand's address and its strides in elements. Dimensions beyond its rank, counted from the last, and
     * those of size 1 are broadcast.
     */
    public void operand(int k, long address, long[] dims, long[] strides) {
        frame.set(k, address);
        strided.operand(k, dims, strides, loop.expression().operand(k).bytes());
    }

    /** Computes all elements of the shape. */
    public void runStrided() {
        if (!strided.plan(loop.expression())) {
            return;
        }
        FusedLoop.Variant variant = strided.hasStride() ? loop.strided() : loop.variant(strided.key());
        strided.writeStrides(frame);
        strided.cut(TILE);
        flat = false;
        kernel = variant.kernel();
        Parallel.forRange(strided.tiles(), Math.max(1, variant.grain() / strided.tileElements()), this);
        kernel = null;
    }

    @Override
    public void run(long from, long to) {
        Kernel tiles = Objects.requireNonNull(kernel);
        if (flat) {
            for (long at = from; at < to; at += TILE) {
                tiles.run(frame, 0, 1, at, Math.min(to, at + TILE));
            }
        } else if (strided.outerRank() == 0) {
            for (long tile = from; tile < to; tile++) {
                strided.runTile(tiles, frame, tile);
            }
        } else {
            runOuter(tiles, from, to);
        }
    }

    /**
     * Runs tiles. On a helper thread {@code this} is the caller's launch, which is only read; the helper writes to its
     * own.
     */
    private void runOuter(Kernel tiles, long from, long to) {
        Launch own = CURRENT.get();
        own.tileFrame.copy(frame);
        Arrays.fill(own.place, 0);
        strided.locate(from, own.place, own.tileFrame);
        for (long tile = from; tile < to; tile++) {
            strided.runTile(tiles, own.tileFrame, tile);
            if ((tile + 1) % strided.tilesPerPlane() == 0) {
                strided.advance(own.place, own.tileFrame);
            }
        }
    }
}
