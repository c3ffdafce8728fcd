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

/** What a recording of Starling's events says: where the host's time went, and how much memory there was when. */
public final class Profile {
    private final List<Step> steps = new ArrayList<>();
    private final Map<Kind, long[]> operations = new HashMap<>();
    private final Map<Kind, long[]> waits = new HashMap<>();
    private final Map<Kind, long[]> requests = new HashMap<>();
    private final Map<String, Long> highWater = new TreeMap<>();

    /**
     * Calls of one kind.
     *
     * @param name the operation, what was waited for, or what was asked of the system
     * @param device where
     * @param calls how many
     * @param amount their time in nanoseconds; of requests their bytes
     */
    public record Total(String name, String device, long calls, long amount) { }

    /**
     * An operation.
     *
     * @param start nanoseconds after the first one's
     * @param nanos how long the host was busy with it
     * @param live bytes lent out on its device at its end
     * @param cached bytes held for reuse on its device at its end
     */
    record Step(String name, String device, String output, long start, long nanos, long live, long cached) { }

    private record Kind(String name, String device) { }

    private Profile() { }

    /** Reads a file that the JDK's Flight Recorder has written. */
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
        // Threads write to buffers of their own, so that the file is not in the order of time.
        ordered.sort(Comparator.comparing(RecordedEvent::getStartTime));
        Instant first = ordered.isEmpty() ? null : ordered.getFirst().getStartTime();
        for (RecordedEvent event : ordered) {
            profile.add(event, first, texts);
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
     * Returns the host's time by operation, most first. An operation that calls others counts their time too. On a GPU
     * this is the time to queue it, unless {@code starling.cuda.synchronous} is set.
     */
    public List<Total> operations() {
        return sorted(operations);
    }

    /** Returns how long the host waited for devices, and for what, longest first. */
    public List<Total> waits() {
        return sorted(waits);
    }

    /** Returns how much memory was asked of the system ({@code allocate}) and given back to it ({@code trim}). */
    public List<Total> requests() {
        return sorted(requests);
    }

    /** Returns by device the most bytes that were lent out at once since the process began. */
    public Map<String, Long> highWater() {
        return new LinkedHashMap<>(highWater);
    }

    /** Returns the time from the first operation's beginning to the last one's end. */
    public Duration duration() {
        return Duration.ofNanos(steps.stream().mapToLong(s -> s.start + s.nanos).max().orElse(0));
    }

    /** Returns all operations in the order of their beginning. */
    List<Step> steps() {
        return steps;
    }

    /** Writes one page of HTML that needs nothing else: operations along time, memory, and tables of totals. */
    public void write(Path page) throws IOException {
        Files.writeString(page, new ProfilePage(this).html());
    }
}
