package dev.starling.tensor.cpu.jit;

/** Functions that kernels call: a scalar method, and where there is one the Vector API's operator. */
enum Function {
    SIN("sin", 1), COS("cos", 1), TAN("tan", 1), ASIN("asin", 1), ACOS("acos", 1), ATAN("atan", 1), ATAN2("atan2", 2),
    SINH("sinh", 1), COSH("cosh", 1), TANH("tanh", 1), EXP("exp", 1), EXPM1("expm1", 1), LOG("log", 1),
    LOG1P("log1p", 1), POW("pow", 2),
    /** Those of {@link Division}, without a vector form. */
    REMAINDER("remainder", 2), FLOOR_DIVIDE("floorDivide", 2), DIVIDE("divide", 2);

    final String method;
    final int arity;

    Function(String method, int arity) {
        this.method = method;
        this.arity = arity;
    }

    /** Whether this is a method of {@link Math} on doubles and an operator of the Vector API. */
    boolean isVector() {
        return ordinal() < REMAINDER.ordinal();
    }
}
