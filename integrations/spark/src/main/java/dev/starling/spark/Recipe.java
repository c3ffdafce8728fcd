package dev.starling.spark;

import java.io.Serializable;

/**
 * Makes a loss or a metric in an executor. A lambda or a method reference that captures nothing, such as
 * {@code Loss::crossEntropy} or {@code Metric::accuracy}, is enough; what it captures must be serialisable.
 *
 * @param <T> what is made
 */
@FunctionalInterface
public interface Recipe<T> extends Serializable {
    /** Makes one. */
    T make();
}
