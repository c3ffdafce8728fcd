package dev.starling.tensor.profile;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/** A summary of a recording of Starling's events: how the host's time was spent, and memory use over time. */
public final class Profile {
    private final List<Step> steps = new ArrayList<>();
    private final Map<Kind, long[]> operations = new HashMap<>();
    private final Map<Kind, long[]> waits = new HashMap<>();
    private final Map<Kind, long[]> requests = new HashMap<>();
    private final Map<String, Long> highWater = new TreeMap<>();

    /**
     * The calls of one kind.
     *
     * @param name the operation, the reason of a wait, or the kind of memory request
     * @param device the device
     * @param calls their number
     * @param amount their total time in nanoseconds; of memory requests their total bytes
     */
    public record Total(String name, String device, long calls, long amount) { }

    /**
     * An operation.
     *
     * @param start nanoseconds since the start of the first operation
     * @param nanos time for which it kept the host busy
     * @param live bytes in use on its device at its end
     * @param cached bytes cached for reuse on its device at its end
     */
    record Step(String name, String device, String output, long start, long nanos, long live, long cached) { }

    private record Kind(String name, String device) { }

    private Profile() { }

    /** Reads a file that the JDK's Flight Recorder wrote. */
    public static Profile read(Path recording) throws IOException {
        Profile profile = new Profile();
        Map<String, String> texts = new HashMap<>();
        List<RecordedEvent> ordered = new ArrayList<>();
        try (RecordingFile file = new RecordingFile(recording)) {
            while (file.hasMoreEvents()) {
                RecordedEvent event = file.readEvent();
                switch (event.getEventType().getName()) {
                    case OperationEvent.NAME -> ordered.add(event);
                    case WaitEvent.NAME -> count(profile.waits, event.getString("reason"), event,
                            event.getDuration().toNanos());
                    case MemoryEvent.NAME -> count(profile.requests, event.getString("action"), event,
                            event.getLong("bytes"));
                    default -> { }
                }
            }
        }
        // Each thread writes to a buffer of its own, so the file is not in order of time.
        ordered.sort(Comparator.comparing(RecordedEvent::getStartTime));
        for (RecordedEvent event : ordered) {
            profile.add(event, ordered.getFirst().getStartTime(), texts);
        }
        return profile;
    }

    private void add(RecordedEvent event, Instant first, Map<String, String> texts) {
        String name = texts.computeIfAbsent(event.getString("operation"), t -> t);
        String device = texts.computeIfAbsent(event.getString("device"), t -> t);
        long nanos = event.getDuration().toNanos();
        steps.add(new Step(name, device, texts.computeIfAbsent(event.getString("output"), t -> t),
                Duration.between(first, event.getStartTime()).toNanos(), nanos, event.getLong("live"),
                event.getLong("cached")));
        count(operations, name, event, nanos);
        highWater.merge(device, event.getLong("peak"), Math::max);
    }

    private static void count(Map<Kind, long[]> totals, String name, RecordedEvent event, long amount) {
        long[] sum = totals.computeIfAbsent(new Kind(name, event.getString("device")), k -> new long[2]);
        sum[0]++;
        sum[1] += amount;
    }

    private static List<Total> sorted(Map<Kind, long[]> totals) {
        return totals.entrySet().stream()
                .map(e -> new Total(e.getKey().name, e.getKey().device, e.getValue()[0], e.getValue()[1]))
                .sorted(Comparator.comparingLong(Total::amount).reversed()).toList();
    }

    /**
     * Returns the host's time by operation, longest first. The time of an operation includes that of operations it
     * calls. For a GPU this is the time to queue the operation, unless {@code starling.cuda.synchronous} is set.
     */
    public List<Total> operations() {
        return sorted(operations);
    }

    /** Returns the host's waits for devices by reason, longest first. */
    public List<Total> waits() {
        return sorted(waits);
    }

    /** Returns the memory allocated from the system ({@code allocate}) and freed ({@code trim}). */
    public List<Total> requests() {
        return sorted(requests);
    }

    /** Returns, by device, the largest number of bytes in use at one time since the process began. */
    public Map<String, Long> highWater() {
        return new LinkedHashMap<>(highWater);
    }

    /** Returns the time from the start of the first operation to the end of the last one. */
    public Duration duration() {
        return Duration.ofNanos(steps.stream().mapToLong(s -> s.start + s.nanos).max().orElse(0));
    }

    /** Returns all operations in the order in which they started. */
    List<Step> steps() {
        return steps;
    }

    /** Writes a self-contained HTML page: operations over time, memory, and tables of totals. */
    public void write(Path page) throws IOException {
        Files.writeString(page, new ProfilePage(this).html());
    }
}
