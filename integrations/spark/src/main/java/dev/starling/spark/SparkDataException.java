package dev.starling.spark;

import dev.starling.errors.StarlingException;

/** Columns or rows that a model cannot take. The message names the column and, where there is one, the row. */
public final class SparkDataException extends StarlingException {
    private static final long serialVersionUID = 1L;

    SparkDataException(String message) {
        super(message);
    }
}
