package dev.starling.jmh.fuzz;

import dev.starling.jmh.fuzz.NetPair.Kind;
import dev.starling.jmh.fuzz.NetPair.Piece;
import dev.starling.nn.Layer;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adagrad;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.ClipByNorm;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;

/**
 * A random network, its training, and changes of its parameters by the user during training; all drawn from a seed.
 *
 * @param type of the weights
 * @param computing type in which layers compute: that of the weights, or bf16
 * @param input sizes without the batch; for tokens only their number
 * @param rows rows of the table of tokens, or 0 without one
 * @param optimizer selects {@link #optimizer}
 * @param smooth whether the loss is cross-entropy, else mean squares
 */
record NetCase(long seed, DType type, DType computing, int batch, long[] input, int rows, int width,
        List<Piece> pieces, int classes, boolean smooth, Rule optimizer, List<Change> changes) {
    static final int STEPS = 5;
    static final double CLIP = 0.5;

    /** The optimisers. */
    enum Rule { SGD, DECAY, MOMENTUM, NESTEROV, ADAM, ADAM_DECAY, ADAM_W, ADAGRAD, CLIPPED_SGD, CLIPPED_ADAM_W }

    /** A user's action before a step. */
    enum Action { FREEZE, UNFREEZE, REPLACE, SET }

    /** An action on a parameter, whose number counts modulo the number of parameters. */
    record Change(int step, Action action, int parameter) { }

    static NetCase draw(long seed) {
        SplittableRandom r = new SplittableRandom(seed * 0x9E3779B97F4A7C15L + 1);
        boolean wide = r.nextInt(3) == 0;
        DType type = wide ? DType.F64 : DType.F32;
        DType computing = !wide && r.nextInt(4) == 0 ? DType.BF16 : type;
        int form = r.nextInt(4);
        long[] input = switch (form) {
            case 0 -> new long[] {1 + r.nextInt(12)};
            case 1 -> new long[] {1 + r.nextInt(6), 1 + r.nextInt(8)};
            case 2 -> new long[] {1 + r.nextInt(4), 1 + r.nextInt(8), 1 + r.nextInt(8)};
            default -> new long[] {1 + r.nextInt(6)};
        };
        List<Piece> pieces = pieces(r, 1 + r.nextInt(5), 0, r.nextInt(3) == 0);
        List<Change> changes = new ArrayList<>();
        for (int i = r.nextInt(2) * r.nextInt(5); i > 0; i--) {
            changes.add(new Change(1 + r.nextInt(STEPS - 1), Action.values()[r.nextInt(4)], r.nextInt(20)));
        }
        return new NetCase(seed, type, computing, 2 + r.nextInt(6), input, form == 3 ? 3 + r.nextInt(8) : 0,
                1 + r.nextInt(8), pieces, 2 + r.nextInt(5), r.nextInt(3) > 0,
                Rule.values()[r.nextInt(Rule.values().length)], changes);
    }

    private static List<Piece> pieces(SplittableRandom r, int count, int depth, boolean drops) {
        List<Piece> pieces = new ArrayList<>();
        Kind[] kinds = Kind.values();
        for (int i = 0; i < count; i++) {
            Kind kind = kinds[r.nextInt(kinds.length - (depth > 1 ? 4 : 0))];
            if (kind == Kind.DROPOUT && !drops || kind == Kind.FLATTEN && r.nextInt(3) > 0) {
                kind = Kind.ACTIVATION;
            }
            boolean compound = kind.compareTo(Kind.RESIDUAL) >= 0;
            pieces.add(new Piece(kind, 1 + r.nextInt(12), r.nextInt(12), r.nextInt(60),
                    compound ? pieces(r, 1 + r.nextInt(3), depth + 1, drops) : List.of(),
                    compound ? pieces(r, 1 + r.nextInt(3), depth + 1, drops) : List.of()));
        }
        return List.copyOf(pieces);
    }

    boolean drops() {
        return pieces.stream().anyMatch(p -> p.holds(Kind.DROPOUT));
    }

    NetPair pair() {
        Generator g = Generator.seeded(seed);
        return rows > 0 ? NetPair.embedded(rows, width, Math.toIntExact(input[0]), pieces, classes, g)
                : NetPair.of(pieces, input, classes, g);
    }

    /** Returns the batch of all steps; tokens are integers. */
    Tensor inputs() {
        long[] dims = new long[input.length + 1];
        dims[0] = batch;
        System.arraycopy(input, 0, dims, 1, input.length);
        Generator g = Generator.seeded(seed + 1);
        return rows > 0 ? g.integers(0, rows, dims) : g.normal(dims).to(type);
    }

    Tensor targets() {
        Generator g = Generator.seeded(seed + 2);
        return smooth ? g.integers(0, classes, batch) : g.normal(batch, classes).to(type);
    }

    Loss loss() {
        return smooth ? Loss.crossEntropy() : Loss.meanSquared();
    }

    double rate() {
        return optimizer.name().contains("ADAM") ? 0.01 : 0.05;
    }

    Optimizer optimizer(Layer net) {
        return switch (optimizer) {
            case SGD -> Sgd.over(net).rate(rate()).build();
            case DECAY -> Sgd.over(net).rate(rate()).weightDecay(0.1).build();
            case MOMENTUM -> Sgd.over(net).rate(rate()).momentum(0.9).weightDecay(0.01).build();
            case NESTEROV -> Sgd.over(net).rate(rate()).momentum(0.8).nesterov().build();
            case ADAM -> Adam.over(net).rate(rate()).build();
            case ADAM_DECAY -> Adam.over(net).rate(rate()).weightDecay(0.1).build();
            case ADAM_W -> AdamW.over(net).rate(rate()).weightDecay(0.1).build();
            case ADAGRAD -> Adagrad.over(net).rate(rate()).initialSum(0.1).weightDecay(0.1).build();
            case CLIPPED_SGD -> ClipByNorm.of(Sgd.over(net).rate(rate()).build(), CLIP);
            case CLIPPED_ADAM_W -> ClipByNorm.of(AdamW.over(net).rate(rate()).build(), CLIP);
        };
    }

    // ---- simplification ----

    /** Returns cases that are slightly simpler. */
    List<NetCase> smaller() {
        List<NetCase> all = new ArrayList<>();
        smaller(pieces).forEach(p -> all.add(with(p, batch, changes)));
        for (int i = 0; i < changes.size(); i++) {
            List<Change> fewer = new ArrayList<>(changes);
            fewer.remove(i);
            all.add(with(pieces, batch, fewer));
        }
        if (batch > 2) {
            all.add(with(pieces, 2, changes));
        }
        for (int i = 0; i < input.length; i++) {
            if (input[i] > 1) {
                long[] less = input.clone();
                less[i] = Math.max(1, input[i] / 2);
                all.add(new NetCase(seed, type, computing, batch, less, rows, width, pieces, classes, smooth,
                        optimizer, changes));
            }
        }
        if (optimizer != Rule.SGD) {
            all.add(new NetCase(seed, type, computing, batch, input, rows, width, pieces, classes, smooth, Rule.SGD,
                    changes));
        }
        return all;
    }

    private NetCase with(List<Piece> newPieces, int newBatch, List<Change> newChanges) {
        return new NetCase(seed, type, computing, newBatch, input, rows, width, newPieces, classes, smooth, optimizer,
                newChanges);
    }

    private static List<List<Piece>> smaller(List<Piece> pieces) {
        List<List<Piece>> all = new ArrayList<>();
        for (int i = 0; i < pieces.size(); i++) {
            Piece p = pieces.get(i);
            all.add(replaced(pieces, i, List.of()));
            if (!p.left().isEmpty()) {
                all.add(replaced(pieces, i, p.left()));
                all.add(replaced(pieces, i, p.right()));
                for (List<Piece> left : smaller(p.left())) {
                    all.add(replaced(pieces, i, List.of(new Piece(p.kind(), p.a(), p.b(), p.c(), left, p.right()))));
                }
                for (List<Piece> right : smaller(p.right())) {
                    all.add(replaced(pieces, i, List.of(new Piece(p.kind(), p.a(), p.b(), p.c(), p.left(), right))));
                }
            } else if (p.a() > 1 && p.kind() != Kind.ACTIVATION) {
                all.add(replaced(pieces, i, List.of(new Piece(p.kind(), p.a() / 2, p.b(), p.c(), p.left(),
                        p.right()))));
            }
        }
        return all;
    }

    private static List<Piece> replaced(List<Piece> pieces, int at, List<Piece> by) {
        List<Piece> all = new ArrayList<>(pieces.subList(0, at));
        all.addAll(by);
        all.addAll(pieces.subList(at + 1, pieces.size()));
        return List.copyOf(all);
    }

    /** Returns the case as Java source for a test. */
    String snippet() {
        String code;
        try (Layer net = pair().ours()) {
            code = pair().code();
        }
        StringBuilder text = new StringBuilder("Generator g = Generator.seeded(" + seed + "L);\nLayer net = " + code
                + ";\n");
        if (type == DType.F64) {
            text.append("net.to(DType.F64);\n");
        }
        String dims = Arrays.toString(input).replaceAll("[\\[\\]]", "");
        text.append("Tensor x = Generator.seeded(").append(seed + 1).append("L).").append(rows > 0
                ? "integers(0, " + rows + ", " : "normal(").append(batch).append(", ").append(dims).append(")")
                .append(type == DType.F64 && rows == 0 ? ".to(DType.F64)" : "").append(";\nTensor y = ")
                .append("Generator.seeded(").append(seed + 2).append("L).").append(smooth
                        ? "integers(0, " + classes + ", " + batch + ")" : "normal(" + batch + ", " + classes + ")")
                .append(type == DType.F64 && !smooth ? ".to(DType.F64)" : "").append(";\n")
                .append("// ").append(optimizer).append(", rate ").append(rate()).append(smooth ? ", cross-entropy"
                        : ", mean squares").append(", computes in ").append(computing).append(", changes ")
                .append(changes).append('\n');
        return text.toString();
    }
}
