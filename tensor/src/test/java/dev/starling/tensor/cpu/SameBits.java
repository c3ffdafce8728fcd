package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.jit.Expression;
import dev.starling.tensor.cpu.jit.FusedLoop;
import dev.starling.tensor.cpu.jit.Launch;
import dev.starling.tensor.cpu.jit.SingleOpcode;
import dev.starling.tensor.cpu.jit.WarmKernels;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.scalar.Opcode;
import java.lang.foreign.Arena;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.function.Supplier;

/**
 * Digests of the bits of every opcode's results, and of those of operations with loops of their own; all NaNs count as
 * one. A main program, so that a JVM with other flags can print the digests.
 */
final class SameBits {
    private static final DType[] TYPES = {DType.F32, DType.F64, DType.BF16};
    private static final int COUNT = 75;
    private static final double[] SPECIAL = {0, -0.0, 1, -1, Double.NaN, Double.POSITIVE_INFINITY,
        Double.NEGATIVE_INFINITY, 1e-310, 3e38, -3e38, 1e-40, 0.5, 2, -3, 1e10, -1e20};

    private final int calls;
    private final Map<String, Long> digests = new TreeMap<>();

    private SameBits(int calls) {
        this.calls = calls;
    }

    /**
     * Returns a digest for each case.
     *
     * @param calls number of times that each case is repeated
     * @throws IllegalStateException if the bits of a call differ from those of the first
     */
    static Map<String, Long> digests(int calls) {
        SameBits bits = new SameBits(calls);
        for (DType type : TYPES) {
            for (Opcode opcode : Opcode.values()) {
                if (opcode != Opcode.CAST && opcode.computes(type)) {
                    bits.opcode(opcode, type);
                }
            }
        }
        bits.operations();
        return bits.digests;
    }

    /** Prints the digests; the first argument is the number of calls. */
    public static void main(String[] args) {
        digests(Integer.parseInt(args[0]))
                .forEach((name, digest) -> System.out.println("digest " + name + " " + digest));
    }

    private static void put(DType type, long at, SplittableRandom random) {
        double wide = Math.scalb(random.nextDouble(1, 2), random.nextInt(-140, 140));
        double value = switch (random.nextInt(4)) {
            case 0 -> SPECIAL[random.nextInt(SPECIAL.length)];
            case 1 -> random.nextBoolean() ? wide : -wide;
            default -> random.nextDouble(-4, 4);
        };
        HostMemory.putDouble(type, at, value);
    }

    private static long digest(DType type, long address, int stride) {
        long digest = 0;
        for (int i = 0; i < COUNT; i++) {
            double value = HostMemory.getDouble(type, address + (long) i * stride * type.bytes());
            digest = 31 * digest + Double.doubleToLongBits(value);
        }
        return digest;
    }

    /** Vectors, elements and operands with gaps must agree in each process, from the first to the last call. */
    private void opcode(Opcode opcode, DType type) {
        Expression expression = SingleOpcode.of(opcode, type, 0);
        FusedLoop loop = FusedLoop.of(expression);
        int operands = opcode.arity() + 1;
        try (Arena arena = Arena.ofConfined()) {
            long[] dense = new long[operands];
            long[] sparse = new long[operands];
            for (int k = 0; k < operands; k++) {
                DType t = k < opcode.arity() ? expression.inputs().get(k) : expression.outputs().getFirst().type();
                dense[k] = arena.allocate(8 * COUNT, 64).address();
                sparse[k] = arena.allocate(16 * COUNT, 64).address();
                SplittableRandom a = new SplittableRandom(k);
                SplittableRandom b = new SplittableRandom(k);
                for (int i = 0; i < COUNT; i++) {
                    put(t, dense[k] + (long) i * t.bytes(), a);
                    put(t, sparse[k] + 2L * i * t.bytes(), b);
                }
            }
            DType result = expression.outputs().getFirst().type();
            repeat(opcode + " " + type, () -> {
                WarmKernels.start(true);
                flat(loop, dense);
                WarmKernels.start(false);
                return digest(result, dense[operands - 1], 1);
            });
            repeat(opcode + " " + type, () -> {
                flat(loop, dense);
                return digest(result, dense[operands - 1], 1);
            });
            repeat(opcode + " " + type, () -> {
                Launch launch = Launch.of(loop);
                launch.shape(COUNT);
                for (int k = 0; k < operands; k++) {
                    launch.operand(k, sparse[k], new long[] {COUNT}, new long[] {2});
                }
                launch.runStrided();
                return digest(result, sparse[operands - 1], 2);
            });
        }
    }

    private static void flat(FusedLoop loop, long[] addresses) {
        Launch launch = Launch.of(loop);
        for (int k = 0; k < addresses.length; k++) {
            launch.operand(k, addresses[k]);
        }
        launch.runFlat(COUNT);
    }

    private void repeat(String name, Supplier<Long> run) {
        for (int call = 0; call < calls; call++) {
            long digest = run.get();
            Long first = digests.putIfAbsent(name, digest);
            if (first != null && first != digest) {
                throw new IllegalStateException(name + ": call " + call + " differs in bits from the first");
            }
        }
    }

    private void operations() {
        try (Scope scope = Scope.open("operands")) {
            for (DType type : new DType[] {DType.F32, DType.F64}) {
                Generator g = Generator.seeded(7);
                Tensor x = g.normal(6, 19).to(type);
                Tensor y = g.normal(6, 19).to(type);
                Tensor row = g.normal(19).to(type);
                Tensor q = g.normal(1, 2, 5, 8).to(type);
                Tensor classes = g.integers(0, 19, 6);
                Map<String, Supplier<Tensor[]>> cases = new LinkedHashMap<>();
                cases.put("softmax", () -> all(x.softmax(1), x.logSoftmax(1)));
                cases.put("reductions", () -> all(x.sum(), x.mean(0), x.sum(1), x.max(1), x.max(), x.min(0)));
                cases.put("layer norm", () -> all(Norms.layerNorm(x, row, row, 1e-5)));
                cases.put("attention", () -> all(Functions.scaledDotProductAttention(q, q, q, true)));
                cases.put("cross entropy", () -> all(Losses.crossEntropy(x, classes)));
                cases.put("products", () -> all(x.matmul(y.transpose(0, 1)), x.pow(2.5).add(y.exp())));
                cases.put("random", () -> {
                    Generator seeded = Generator.seeded(3);
                    return all(seeded.normal(COUNT), seeded.uniform(COUNT));
                });
                cases.put("adam", () -> {
                    Tensor[] state = {x.copy(), y, y.copy(), y.square()};
                    for (int step = 1; step < 4; step++) {
                        Tensor.apply(new Rule.Adam(0.9, 0.99, 1e-8, 0.1, true).step(1e-2, step), state);
                    }
                    return all(state[0], state[2], state[3]);
                });
                cases.put("lstm", () -> Tensor.apply(new Recurrence.Lstm(false, true), lstm(type)));
                cases.forEach((name, run) -> repeat(name + " " + type, () -> digest(run)));
            }
        }
    }

    private static Tensor[] lstm(DType type) {
        Generator g = Generator.seeded(11);
        Tensor[] operands = {g.normal(3, 2, 5), g.normal(2, 7), g.normal(2, 7), g.normal(28, 5), g.normal(28, 7),
            g.normal(28), g.normal(28)};
        for (int i = 0; i < operands.length; i++) {
            operands[i] = operands[i].to(type);
        }
        return operands;
    }

    private static Tensor[] all(Tensor... tensors) {
        return tensors;
    }

    private static long digest(Supplier<Tensor[]> run) {
        try (Scope scope = Scope.open("case")) {
            long digest = 0;
            for (Tensor tensor : run.get()) {
                for (double value : tensor.toDoubles()) {
                    digest = 31 * digest + Double.doubleToLongBits(value);
                }
            }
            return digest;
        }
    }
}
