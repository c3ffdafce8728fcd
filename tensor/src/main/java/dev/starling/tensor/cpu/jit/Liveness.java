package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.cpu.jit.LoopBody.Node;
import java.util.Arrays;
import java.util.List;

/**
 * Which values of a body machine code computes, how often, and until when it needs them. Values of level
 * {@link #CALL} are the same for all elements of a call, those of level {@link #ROW} for all of a row.
 */
final class Liveness {
    static final int CALL = 0;
    static final int ROW = 1;
    static final int COLUMN = 2;

    private final List<Node> nodes;
    private final int[] roots;
    private final int[] levels;
    private final boolean[] needed;
    /** For each level and value the last instruction of that level that reads it, or -1. */
    private final int[][] last;
    private final int[] uses;

    Liveness(LoopBody body, List<Access> accesses) {
        nodes = body.nodes();
        int count = nodes.size();
        roots = new int[count];
        levels = new int[count];
        needed = new boolean[count];
        last = new int[3][count];
        uses = new int[count];
        for (int[] level : last) {
            Arrays.fill(level, -1);
        }
        for (int v = 0; v < count; v++) {
            Node node = nodes.get(v);
            roots[v] = switch (node.primitive()) {
                case REINTERPRET -> roots[node.a()];
                case RARE -> roots[node.b()];
                default -> v;
            };
            levels[v] = level(node, accesses);
        }
        for (int v = count - 1; v >= 0; v--) {
            Primitive primitive = nodes.get(v).primitive();
            needed[v] |= primitive == Primitive.STORE || primitive == Primitive.UPDATE || primitive == Primitive.RARE;
            for (int k = 0; needed[v] && k < 3; k++) {
                int operand = operand(v, k);
                if (operand >= 0) {
                    needed[operand] = true;
                    last[levels[v]][operand] = Math.max(last[levels[v]][operand], v);
                    uses[operand] += levels[v] == COLUMN ? 1 : 0;
                }
            }
        }
    }

    private int level(Node node, List<Access> accesses) {
        return switch (node.primitive()) {
            case LOAD -> accesses.get((int) node.immediate()) == Access.BROADCAST ? ROW : COLUMN;
            case STORE, UPDATE, RARE, CALL -> COLUMN;
            case ACCUMULATOR -> ROW;
            default -> Math.max(level(node.a()), Math.max(level(node.b()), level(node.c())));
        };
    }

    private int level(int value) {
        return value < 0 ? CALL : isAccumulator(roots[value]) ? COLUMN : levels[roots[value]];
    }

    /**
     * Returns operand {@code k} of a value, or -1. A reinterpreted value is the value itself; a rare condition reads
     * nothing else, because the loop over single elements computes what follows from it.
     */
    int operand(int value, int k) {
        Node node = nodes.get(value);
        int operand = k == 0 ? node.a() : k == 1 ? node.b() : node.c();
        boolean read = switch (node.primitive()) {
            case RARE -> k == 0;
            case REINTERPRET, ACCUMULATOR -> false;
            default -> true;
        };
        return operand < 0 || !read ? -1 : roots[operand];
    }

    boolean isAccumulator(int value) {
        return nodes.get(value).primitive() == Primitive.ACCUMULATOR;
    }

    int root(int value) {
        return roots[value];
    }

    /** Returns whether code for the value is part of a level's section. */
    boolean computes(int value, int level) {
        return needed[value] && levels[value] == level && nodes.get(value).primitive() != Primitive.REINTERPRET
                && nodes.get(value).primitive() != Primitive.CONSTANT && !isAccumulator(value);
    }

    int levelOf(int value) {
        return levels[value];
    }

    /** Returns the last instruction of a level that reads a value, or -1. */
    int lastUse(int value, int level) {
        return last[level][value];
    }

    /** Returns the first instruction of a level behind {@code after} that reads a value, or the largest number. */
    int nextUse(int value, int level, int after) {
        for (int v = after + 1; v <= last[level][value]; v++) {
            if (needed[v] && levels[v] == level
                    && (operand(v, 0) == value || operand(v, 1) == value || operand(v, 2) == value)) {
                return v;
            }
        }
        return Integer.MAX_VALUE;
    }

    /** Returns how often the instructions of a row's columns read a value. */
    int uses(int value) {
        return uses[value];
    }
}
