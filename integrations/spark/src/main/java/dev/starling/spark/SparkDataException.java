package dev.starling.spark;

import dev.starling.errors.StarlingException;

/** Thrown for columns or rows that a model cannot use. The message names the column and, if there is one, the row. */
public final class SparkDataException extends StarlingException {
    private static final long serialVersionUID = 1L;

    SparkDataException(String message) {
        super(message);
    }
}
