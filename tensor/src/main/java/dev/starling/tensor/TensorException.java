package dev.starling.tensor;

import dev.starling.errors.StarlingException;
import java.util.List;

/** A request that an operation cannot fulfil: names the operation, what it requires, what came, and the remedy. */
public final class TensorException extends StarlingException {
    private static final long serialVersionUID = 1L;

    /** What is wrong. */
    public enum Problem {
        /** Sizes do not fit. */
        SHAPE,
        /** Element types do not fit. */
        DTYPE,
        /** Operands live on different devices, or the device is not there. */
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
        /** A file does not hold what it should. */
        DATA,
        /** A NaN or infinity came up where anomalies are looked for. */
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
     * @param relation what must hold and does not
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

    /** Makes an exception for an argument that is not a tensor. */
    public static TensorException argument(String op, String relation, String remedy) {
        return new TensorException(Problem.ARGUMENT, op, List.of(), relation, remedy);
    }

    /** Returns what is wrong. */
    public Problem problem() {
        return problem;
    }

    /** Returns the operation's name. */
    public String op() {
        return op;
    }

    /** Returns the operands' specs; empty where none is to blame. */
    public List<Spec> operands() {
        return operands == null ? List.of() : operands;
    }

    /** Returns what must hold and does not. */
    public String relation() {
        return relation;
    }

    /** Returns what the caller can do. */
    public String remedy() {
        return remedy;
    }
}
