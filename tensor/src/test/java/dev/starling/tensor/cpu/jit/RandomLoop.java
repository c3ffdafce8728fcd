package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.Expression.Builder;
import dev.starling.tensor.cpu.jit.Expression.Value;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.scalar.Opcode;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.jspecify.annotations.Nullable;

/**
 * A loop drawn from a seed: opcodes on values of all types, operands that are contiguous, broadcast or strided, and
 * parameters. It runs in machine code and element by element, on the same memory.
 */
final class RandomLoop {
    private static final int GUARD = 64;
    private final SplittableRandom random;
    private final Expression expression;
    private final List<Access> accesses = new ArrayList<>();
    private final int rows;
    private final int columns;

    RandomLoop(long seed) {
        random = new SplittableRandom(seed);
        expression = expression();
        rows = random.nextInt(1, 4);
        columns = random.nextInt(1, random.nextInt(4) == 0 ? 200 : 40);
        boolean strides = random.nextInt(3) == 0;
        for (int k = 0; k < expression.operands(); k++) {
            boolean input = k < expression.inputs().size();
            accesses.add(strides ? Access.STRIDED
                    : input && random.nextInt(4) == 0 ? Access.BROADCAST : Access.CONTIGUOUS);
        }
    }

    private Expression expression() {
        Builder builder = new Builder();
        List<Value> values = new ArrayList<>();
        DType[] types = DType.values();
        int inputs = random.nextInt(1, 10);
        for (int i = 0; i < inputs; i++) {
            values.add(builder.input(types[random.nextInt(types.length)]));
        }
        for (int i = random.nextInt(3); i > 0; i--) {
            values.add(builder.parameter(types[random.nextInt(types.length)]));
        }
        int length = random.nextInt(1, 24);
        for (int i = 0; i < length; i++) {
            values.add(step(builder, values));
        }
        int outputs = random.nextInt(1, 4);
        for (int i = 0; i < outputs; i++) {
            builder.output(values.get(values.size() - 1 - random.nextInt(Math.min(values.size(), 1 + 2 * i))));
        }
        return builder.build();
    }

    private Value step(Builder builder, List<Value> values) {
        if (random.nextInt(4) == 0) {
            return builder.cast(any(values), DType.values()[random.nextInt(DType.values().length)]);
        }
        Opcode opcode = Opcode.values()[random.nextInt(Opcode.values().length)];
        DType type = any(values).type();
        boolean machineCode = opcode != Opcode.REMAINDER && opcode != Opcode.FLOOR_DIVIDE
                && (opcode != Opcode.DIV || type.isFloating());
        if (opcode == Opcode.CAST || !opcode.computes(type) || !machineCode) {
            return builder.constant(type, random.nextInt(5) - 2 + random.nextInt(3) * 0.25);
        }
        Value[] operands = new Value[opcode.arity()];
        for (int i = 0; i < operands.length; i++) {
            DType operand = opcode == Opcode.WHERE && i == 0 ? DType.BOOL : type;
            operands[i] = builder.cast(any(values), operand);
        }
        return builder.apply(opcode, operands);
    }

    private Value any(List<Value> values) {
        return values.get(random.nextInt(values.size()));
    }

    /** Returns whether there is machine code of a width for the loop. */
    boolean isComparable(int bits) {
        return FusedLoop.isCompilable(expression) && NativeKernel.supports(Lowering.lower(expression), bits);
    }

    /** Returns the first difference between machine code of a width and the loop over elements, or {@code null}. */
    @Nullable String difference(int bits) {
        LoopBody body = Lowering.lower(expression);
        Kernel elements = KernelWriter.write(expression, body, accesses, 0);
        Kernel kernel = NativeKernel.of(expression, body, accesses, bits, () -> elements);
        if (kernel == null) {
            return "no memory for machine code";
        }
        SplittableRandom content = random.split();
        try (Arena arena = Arena.ofConfined()) {
            int operands = expression.operands();
            int outputs = expression.outputs().size();
            MemorySegment[] memory = new MemorySegment[operands + outputs];
            Frame[] frames = {new Frame(), new Frame()};
            for (int k = 0; k < operands; k++) {
                int bytes = expression.operand(k).bytes();
                int step = accesses.get(k) == Access.STRIDED ? random.nextInt(3) : 1;
                boolean output = k >= expression.inputs().size();
                step = output ? Math.max(1, step) : step;
                long row = accesses.get(k) == Access.BROADCAST ? bytes : (long) columns * step * bytes;
                memory[k] = memory(arena, k, content);
                set(frames[0], k, memory[k], row, (long) step * bytes);
                int place = output ? operands + k - expression.inputs().size() : k;
                if (output) {
                    memory[place] = arena.allocate(memory[k].byteSize(), 64).copyFrom(memory[k]);
                }
                set(frames[1], k, memory[place], row, (long) step * bytes);
            }
            for (int p = 0; p < expression.parameters().size(); p++) {
                double value = random.nextInt(7) - 3 + (random.nextInt(3) - 1) * 1e-3;
                for (Frame frame : frames) {
                    frame.set(3 * operands + p, expression.parameters().get(p).isFloating()
                            ? Double.doubleToRawLongBits(value) : (long) value);
                }
            }
            int from = random.nextInt(columns);
            for (int[] part : new int[][] {{0, from}, {from, columns}}) {
                kernel.run(frames[0], 0, rows, part[0], part[1]);
                elements.runElements(frames[1], 0, rows, part[0], part[1]);
            }
            for (int o = 0; o < outputs; o++) {
                String difference = difference(expression.outputs().get(o).type(),
                        memory[expression.inputs().size() + o], memory[operands + o]);
                if (difference != null) {
                    return "output " + o + difference + " of " + expression.instructions() + " " + accesses + " " + rows
                            + "x" + columns + " from " + from;
                }
            }
            return null;
        }
    }

    private void set(Frame frame, int k, MemorySegment memory, long row, long column) {
        int operands = expression.operands();
        frame.ensure(3 * operands + expression.parameters().size());
        frame.set(k, memory.address() + GUARD);
        frame.set(operands + k, row);
        frame.set(2 * operands + k, column);
    }

    private MemorySegment memory(Arena arena, int k, SplittableRandom content) {
        DType type = expression.operand(k);
        int elements = rows * columns * 3;
        MemorySegment memory = arena.allocate(2 * GUARD + (long) elements * type.bytes(), 64);
        long start = memory.address() + GUARD;
        ScalarOracle.fill(type, start, elements, content);
        if (type.isFloating() && content.nextInt(4) == 0) {
            for (int i = 0; i < elements; i += 7) {
                HostMemory.putDouble(type, start + (long) i * type.bytes(), (content.nextDouble() - 0.5) * 1e12);
            }
        }
        if (type.isFloating() && content.nextBoolean()) {
            for (int i = 0; i < elements; i++) {
                HostMemory.putDouble(type, start + (long) i * type.bytes(), content.nextDouble(-4, 4));
            }
        }
        if (type == DType.BOOL) {
            for (int i = 0; i < elements; i++) {
                memory.set(ValueLayout.JAVA_BYTE, GUARD + i, (byte) content.nextInt(2));
            }
        }
        return memory;
    }

    /** Compares whole memory, so that no element beyond the last is written; all NaNs count as one. */
    private static @Nullable String difference(DType type, MemorySegment a, MemorySegment b) {
        byte[] first = a.toArray(ValueLayout.JAVA_BYTE);
        byte[] second = b.toArray(ValueLayout.JAVA_BYTE);
        int bytes = type.bytes();
        for (int i = 0; i < first.length; i += bytes) {
            int at = i;
            if (!Arrays.equals(first, i, i + bytes, second, i, i + bytes)) {
                double x = HostMemory.getDouble(type, a.address() + at);
                double y = HostMemory.getDouble(type, b.address() + at);
                if (!type.isFloating() || !Double.isNaN(x) || !Double.isNaN(y)) {
                    return " at byte " + (at - GUARD) + " is " + x + ", not " + y;
                }
            }
        }
        return null;
    }

    /** Prints the seeds of a range whose machine code differs: the first seed, their number, the width in bits. */
    public static void main(String[] args) {
        long first = Long.parseLong(args[0]);
        int compared = 0;
        for (long seed = first; seed < first + Long.parseLong(args[1]); seed++) {
            RandomLoop loop = new RandomLoop(seed);
            int bits = Integer.parseInt(args[2]);
            if (loop.isComparable(bits)) {
                compared++;
                String difference = loop.difference(bits);
                if (difference != null) {
                    System.out.println(seed + ": " + difference);
                }
            }
        }
        System.out.println(compared + " compared");
    }
}
