package dev.starling.tensor;

import dev.starling.errors.StarlingException;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

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
    private String path = "";
    private String innermost = "";
    private transient @Nullable Object part;

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

    /**
     * Records that this exception passes through a part of a program, such as a layer of a model, on its way outwards.
     *
     * @param outer the part
     * @param name of the part that this exception passed through before, inside {@code outer}; empty if there is none,
     *     or if {@code outer} has no name for it
     * @param description of {@code outer}, which messages show if it is the innermost part
     * @return this exception
     */
    public TensorException passing(Object outer, String name, String description) {
        innermost = part == null ? description : innermost;
        part = outer;
        path = name.isEmpty() ? path : path.isEmpty() ? name : name + "." + path;
        return this;
    }

    /** Returns the outermost part of a program that this exception has passed through, or {@code null}. */
    public @Nullable Object part() {
        return part;
    }

    /** Returns the path of the layer in which this occurred, for example {@code 3.body.0}; empty if not known. */
    public String path() {
        return path;
    }

    @Override
    public String getMessage() {
        String message = Objects.requireNonNull(super.getMessage());
        return path.isEmpty() ? message : "layer " + path + ", " + innermost + ": " + message;
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
