package dev.starling.nn.data;

/**
 * Writes an object of a program as an example. Several threads may call it concurrently.
 *
 * @param <T> the type of the objects
 */
@FunctionalInterface
public interface ExampleWriter<T> {
    /**
     * Writes all fields of an example.
     *
     * @param element the object
     * @param target receives every field
     * @throws Exception if it cannot be written; the reader of the batch gets it as a {@link LoadException}
     */
    void write(T element, Example target) throws Exception;
}
