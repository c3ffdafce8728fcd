package dev.starling.spark;

import java.io.Serializable;

/**
 * Creates a loss or a metric in an executor. A lambda or a method reference such as {@code Loss::crossEntropy} or
 * {@code Metric::accuracy} is enough; captured values must be serialisable.
 *
 * @param <T> a loss or a metric
 */
@FunctionalInterface
public interface Recipe<T> extends Serializable {
    /** Creates a new one. */
    T make();
}
