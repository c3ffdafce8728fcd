package dev.starling.tensor;

import dev.starling.errors.StarlingException;
import java.util.List;

/**
 * A request that an operation cannot fulfil. Names the operation, its requirement, the actual operands and a remedy.
 */
public final class TensorException extends StarlingException {
    private static final long serialVersionUID = 1L;

    /** The kind of problem. */
    public enum Problem {
        /** Sizes do not fit. */
        SHAPE,
        /** Element types do not fit. */
        DTYPE,
        /** Operands are on different devices, or the device does not exist. */
        DEVICE,
        /** An index is out of range. */
        INDEX,
        /** The tensor's scope was closed. */
        CLOSED,
        /** Memory is exhausted. */
        MEMORY,
        /** A recorded value was changed in place. */
        VERSION,
        /** Any other argument. */
        ARGUMENT,
        /** A file is malformed. */
        DATA,
        /** A NaN or an infinity occurred while anomaly detection was on. */
        ANOMALY
    }

    private final Problem problem;
    private final String op;
    private final transient List<Spec> operands;
    private final String relation;
    private final String remedy;

    /**
     * Makes an exception.
     *
     * @param relation the requirement that is violated
     * @param remedy what the caller can do
     */
    public TensorException(Problem problem, String op, List<Spec> operands, String relation, String remedy) {
        super(op + ": " + relation + (operands.isEmpty() ? "" : "; operands " + operands) + "; " + remedy);
        this.problem = problem;
        this.op = op;
        this.operands = List.copyOf(operands);
        this.relation = relation;
        this.remedy = remedy;
    }

    /** Makes an exception about an argument that is not a tensor. */
    public static TensorException argument(String op, String relation, String remedy) {
        return new TensorException(Problem.ARGUMENT, op, List.of(), relation, remedy);
    }

    /** Returns the kind of problem. */
    public Problem problem() {
        return problem;
    }

    /** Returns the operation's name. */
    public String op() {
        return op;
    }

    /** Returns the operands' specs; empty if the problem is not in an operand. */
    public List<Spec> operands() {
        return operands == null ? List.of() : operands;
    }

    /** Returns the requirement that is violated. */
    public String relation() {
        return relation;
    }

    /** Returns what the caller can do. */
    public String remedy() {
        return remedy;
    }
}
