package dev.starling.jmh.serving;

import java.util.function.UnaryOperator;

/** An implementation that answers predictions of one model. */
interface Server extends AutoCloseable {
    /** Returns a client for one thread: it maps the elements of an example to those of the result. */
    UnaryOperator<float[]> client();

    @Override
    void close();
}
