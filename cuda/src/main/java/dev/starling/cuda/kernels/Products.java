package dev.starling.cuda.kernels;

import java.util.List;

/** One way to multiply matrices: by a library, or by a kernel of Starling. Safe for use by several threads. */
@FunctionalInterface
public interface Products {
    /** Queues a product whose result is not empty, or declines it. */
    Answer multiply(Multiplication product);

    /** Multiplies in the first of several ways that does not decline. */
    static void multiply(List<Products> ways, Multiplication product) {
        if (product.y().count() > 0 && ways.stream().noneMatch(way -> way.multiply(product).isHandled())) {
            throw new AssertionError("no kernel multiplies " + product);
        }
    }
}
