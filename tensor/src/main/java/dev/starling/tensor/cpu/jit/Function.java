package dev.starling.tensor.cpu.jit;

/** Static methods that kernels call. Each gives the same bits in all tiers of the JVM. */
enum Function {
    /** Methods of {@link StrictMath} on doubles. */
    SIN("sin", 1), COS("cos", 1), TAN("tan", 1),
    /** Methods of {@link Division}. */
    REMAINDER("remainder", 2), FLOOR_DIVIDE("floorDivide", 2), DIVIDE("divide", 2);

    final String method;
    final int arity;

    Function(String method, int arity) {
        this.method = method;
        this.arity = arity;
    }

    Class<?> owner() {
        return arity == 1 ? StrictMath.class : Division.class;
    }
}
