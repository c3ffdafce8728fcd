package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Objects that arrive one after the other, in unknown number, as examples: rows of a database, lines of a file that
 * does not fit into memory, messages. The program determines how many of them are an epoch. A source that ends earlier
 * starts again. They can be shuffled within a {@linkplain #shuffle buffer}.
 *
 * <p>Each epoch starts the source anew. If that yields the same objects in the same order, so does every epoch, apart
 * from shuffling, and:
 * <ul>
 * <li>a run resumes bit for bit. The objects before the batch at which it resumes are read again and dropped.
 * <li>ranks that share batches each read the whole source and drop the other ranks' objects. Where reading is slow,
 * give each rank a source of its own and train with {@link Share.Own} or {@link Share.OwnPart}.
 * </ul>
 * A supplier that returns the same iterator each time continues it; such a run cannot resume at the same object.
 *
 * <p>Objects are only read in order. The loader must therefore not shuffle and must have at most one worker, which
 * {@link DataLoader.Builder#build} checks. Only one loader may read at a time. To read a finite source once in full and
 * in any order, collect it in a {@link ListDataset}, or in {@link SpillingRows} if it is larger than memory.
 *
 * @param <T> the type of the objects
 */
public final class StreamDataset<T> implements Dataset {
    /** Separates these random numbers from others that are drawn with the same seed. */
    private static final long STREAM = 0x53747265616d4275L;

    private final Supplier<? extends Iterator<? extends T>> source;
    private final int examples;
    private final List<Field> fields;
    private final ExampleWriter<? super T> writer;
    private final int capacity;
    private final List<T> buffer = new ArrayList<>();
    /** {@code null} before the first example is read. */
    private @Nullable Iterator<? extends T> iterator;
    private int epoch;
    private long seed;
    /** The number of objects of this epoch that were read or dropped. */
    private int next;
    /** The example that was asked for last; the largest number until the source is started for the epoch. */
    private int asked = Integer.MAX_VALUE;

    private StreamDataset(Supplier<? extends Iterator<? extends T>> source, int examples, List<Field> fields,
            ExampleWriter<? super T> writer, int capacity) {
        if (examples < 0 || capacity < 1) {
            throw TensorException.argument("stream", "an epoch needs >= 0 examples and the buffer >= 1, got "
                    + examples + " and " + capacity, "correct them");
        }
        this.source = source;
        this.examples = examples;
        this.fields = List.copyOf(fields);
        this.writer = writer;
        this.capacity = capacity;
    }

    /**
     * Returns examples of a source, in its order.
     *
     * @param source starts the source; an iterator that is {@link AutoCloseable} is closed before another one is used,
     *     so the last one stays open
     * @param examples number of examples in an epoch
     * @param fields of an example: the model's input first, the target last
     * @param writer writes an object
     */
    public static <T> StreamDataset<T> of(Supplier<? extends Iterator<? extends T>> source, int examples,
            List<Field> fields, ExampleWriter<? super T> writer) {
        return new StreamDataset<>(source, examples, fields, writer, 1);
    }

    /**
     * Returns the same examples in random order: each is drawn from the {@code elements} that were read last and not
     * drawn yet. The order depends only on the loader's seed and the epoch.
     */
    public StreamDataset<T> shuffle(int elements) {
        return new StreamDataset<>(source, examples, fields, writer, elements);
    }

    @Override
    public int size() {
        return examples;
    }

    @Override
    public List<Field> fields() {
        return fields;
    }

    @Override
    public boolean isSequential() {
        return true;
    }

    @Override
    public synchronized void write(int index, Example target) throws Exception {
        if (epoch != target.epoch() || seed != target.seed() || index <= asked) {
            // Stays so if the source cannot be started: the next call must not go on with another epoch's objects.
            asked = Integer.MAX_VALUE;
            start();
            epoch = target.epoch();
            seed = target.seed();
            next = 0;
        }
        asked = index;
        while (next < index) {
            draw();
        }
        writer.write(draw(), target);
    }

    /** Starts the source. Objects in the buffer stay if it continues. */
    private Iterator<? extends T> start() throws Exception {
        Iterator<? extends T> started = source.get();
        Iterator<? extends T> before = iterator;
        if (started != before) {
            buffer.clear();
            iterator = started;
            close(before);
        }
        return started;
    }

    private static void close(@Nullable Object iterator) throws Exception {
        if (iterator instanceof AutoCloseable closeable) {
            closeable.close();
        }
    }

    private T draw() throws Exception {
        Iterator<? extends T> from = iterator == null ? start() : iterator;
        if (buffer.isEmpty() && !from.hasNext()) {
            from = start();
            if (!from.hasNext()) {
                throw TensorException.argument("stream", "the source has ended before example " + next
                        + " of the epoch and has no elements when it is started again", "let the supplier return a new "
                        + "iterator, or reduce the " + examples + " examples of an epoch");
            }
        }
        while (buffer.size() < capacity && from.hasNext()) {
            buffer.add(from.next());
        }
        int drawn = capacity == 1 ? 0 : ExampleRandom.of(seed ^ STREAM, epoch, next).nextInt(buffer.size());
        T element = buffer.get(drawn);
        T last = buffer.removeLast();
        if (drawn < buffer.size()) {
            buffer.set(drawn, last);
        }
        next++;
        return element;
    }
}
