package dev.starling.tensor.cpu.jit;

/** A number in a {@link LoopBody} as the sum of two doubles, of which the second is below the last bit of the first. */
record Pair(int high, int low) {
    /** Returns the sum of two numbers with its rounding error, whichever of them is larger. */
    static Pair sum(LoopBody body, int a, int b) {
        int sum = body.add(a, b);
        int part = body.sub(sum, a);
        return new Pair(sum, body.add(body.sub(a, body.sub(sum, part)), body.sub(b, part)));
    }

    /** Returns the sum with its rounding error of {@code a} and a number not larger than it, or of 0 and any number. */
    static Pair ordered(LoopBody body, int a, int b) {
        int sum = body.add(a, b);
        return new Pair(sum, body.sub(b, body.sub(sum, a)));
    }

    /** Returns the product of two numbers with its rounding error. */
    static Pair product(LoopBody body, int a, int b) {
        int product = body.mul(a, b);
        return new Pair(product, body.fma(a, b, body.neg(product)));
    }
}
