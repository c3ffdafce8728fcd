package dev.starling.tensor.cpu.jit;

/** A number of a {@link LoopBody} as the sum of two doubles, the second below the last place of the first. */
record Pair(int high, int low) {
    /** The sum of two numbers and what rounding loses, whichever is the greater. */
    static Pair sum(LoopBody body, int a, int b) {
        int sum = body.add(a, b);
        int part = body.sub(sum, a);
        return new Pair(sum, body.add(body.sub(a, body.sub(sum, part)), body.sub(b, part)));
    }

    /** The sum of {@code a} and a number that is not greater, or of 0 and any. */
    static Pair ordered(LoopBody body, int a, int b) {
        int sum = body.add(a, b);
        return new Pair(sum, body.sub(b, body.sub(sum, a)));
    }

    /** The product of two numbers and what rounding loses. */
    static Pair product(LoopBody body, int a, int b) {
        int product = body.mul(a, b);
        return new Pair(product, body.fma(a, b, body.neg(product)));
    }
}
