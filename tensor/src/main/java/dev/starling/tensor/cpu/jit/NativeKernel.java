package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.LoopBody.Node;
import dev.starling.tensor.cpu.x86.Assembler;
import dev.starling.tensor.cpu.x86.MachineCode;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A loop in machine code, at full speed from the first call. Vectors for which a rare condition holds are left to the
 * loop over single elements, which gives the same bits.
 */
final class NativeKernel implements Kernel {
    private final MachineCode loop;
    private final int width;
    private final Supplier<Kernel> elements;
    private volatile @Nullable Kernel known;

    private NativeKernel(MachineCode loop, int width, Supplier<Kernel> elements) {
        this.loop = loop;
        this.width = width;
        this.elements = elements;
    }

    /**
     * Returns a kernel, or {@code null} if this process has no machine code for the body.
     *
     * @param elements makes the loop over single elements, if it is needed
     */
    static @Nullable Kernel of(Expression expression, LoopBody body, List<Access> accesses, int bits,
            Supplier<Kernel> elements) {
        Assembler code = new Assembler();
        VectorCode set = bits == 512 ? new Avx512Code(code, width(body, bits)) : new Avx2Code(code, body);
        int inputs = expression.inputs().size();
        if (!supports(body, bits) || accesses.subList(inputs, accesses.size()).contains(Access.BROADCAST)) {
            return null;
        }
        List<DType> types = new ArrayList<>();
        for (int k = 0; k < expression.operands(); k++) {
            types.add(expression.operand(k));
        }
        new NativeWriter(code, types, body, accesses, set).write();
        MachineCode loop = MachineCode.of(code);
        return loop == null ? null : new NativeKernel(loop, set.width(), elements);
    }

    /** Returns whether there is machine code for a body, with vectors of 512 or 256 bits; 0 for none. */
    static boolean supports(LoopBody body, int bits) {
        for (Node node : body.nodes()) {
            if (node.primitive() == Primitive.CALL
                    || bits != 512 && !Avx2Code.supports(node, node.a() < 0 ? node.lane() : body.lane(node.a()))) {
                return false;
            }
        }
        return bits > 0;
    }

    /** Returns the number of elements of a vector: its widest lane fills it. */
    static int width(LoopBody body, int bits) {
        int widest = body.nodes().isEmpty() ? 4 : 0;
        for (Node node : body.nodes()) {
            widest = Math.max(widest, node.lane().bytes);
        }
        return bits / 8 / widest;
    }

    @Override
    public void run(Frame frame, long rowFrom, long rowTo, long columnFrom, long columnTo) {
        long left = loop.call(frame.memory(), rowFrom, rowTo, columnFrom, columnTo);
        while (left != 0) {
            long row = rowTo - (left >>> 32);
            long column = columnFrom;
            do {
                column += (int) left;
                long end = Math.min(column + width, columnTo);
                runElements(frame, row, row + 1, column, end);
                column = end;
                left = column < columnTo ? loop.call(frame.memory(), row, row + 1, column, columnTo) : 0;
            } while (left != 0);
            left = row + 1 < rowTo ? loop.call(frame.memory(), row + 1, rowTo, columnFrom, columnTo) : 0;
        }
    }

    @Override
    public void runElements(Frame frame, long rowFrom, long rowTo, long columnFrom, long columnTo) {
        Kernel kernel = known;
        if (kernel == null) {
            kernel = elements.get();
            known = kernel;
        }
        kernel.runElements(frame, rowFrom, rowTo, columnFrom, columnTo);
    }
}
