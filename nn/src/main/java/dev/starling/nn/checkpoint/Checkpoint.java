package dev.starling.nn.checkpoint;

import dev.starling.errors.PlainFile;
import dev.starling.nn.Parameter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The state of a run at one step, stored in a directory as two files. {@code step-N-DIGEST.safetensors} contains
 * tensors and notes. The manifest {@code step-N.json} contains that file's name, length and SHA-256, and lists the
 * {@link Part}s that other processes wrote. The manifest is written last, and a checkpoint without a manifest does not
 * exist: a save that fails at any point leaves earlier checkpoints intact. A directory belongs to one run at a time. If
 * a process of that run is stopped during a save and wakes up after another process has replaced it, it does not damage
 * that process's files.
 */
public final class Checkpoint {
    private static final System.Logger LOG = System.getLogger("dev.starling.nn");
    private static final Pattern MANIFEST = Pattern.compile("step-(\\d{1,18})\\.json");
    private static final Pattern NAMED = Pattern.compile("\"(step-\\d{1,18}-[0-9a-f]{8}\\.safetensors|"
            + Part.NAME + ")\"");
    private static final Pattern DATA_OR_DRAFT = Pattern.compile("step-(\\d{1,18})(-[0-9a-f]{8})?"
            + "(\\.(safetensors|(safetensors|json)(\\.[0-9a-f]{8})?\\.tmp)|-\\d{1,9}\\.rows(\\.tmp)?)");
    private static final long MAX_MANIFEST_BYTES = 10_000_000;
    private static final String REMEDY = "delete the manifest, call skipDamaged() or pass --skip-damaged, "
            + "to resume from the previous checkpoint";

    private final Path manifest;
    private final Path data;
    private final long step;
    private final List<Part> parts;

    private Checkpoint(Path manifest, Path data, long step, List<Part> parts) {
        this.manifest = manifest;
        this.data = data;
        this.step = step;
        this.parts = List.copyOf(parts);
    }

    // ---- saving ----

    /**
     * Saves the state at a step.
     *
     * @param directory is created if absent
     * @param notes texts to save with the tensors
     * @return the manifest
     * @throws CheckpointException if it cannot be written, for example because the disk is full
     */
    public static Path save(Path directory, long step, Map<String, Parameter> tensors, Map<String, String> notes) {
        return save(directory, step, tensors, notes, Parts.NONE).orElseThrow();
    }

    /** Saves the state at a step once its parts are written. Returns an empty result if the parts were abandoned. */
    static Optional<Path> save(Path directory, long step, Map<String, Parameter> tensors, Map<String, String> notes,
            Parts parts) {
        String name = String.format(Locale.ROOT, "step-%010d", step);
        Path manifest = directory.resolve(name + ".json");
        if (stepOf(manifest) < 0) {
            throw new CheckpointException(manifest, "would not be found again: a step is from 0 to 10^18 - 1, got "
                    + step, "count steps from 0", null);
        }
        Path partial = PlainFile.draft(directory.resolve(name + ".safetensors"));
        try {
            Files.createDirectories(directory);
            String digest = AtomicFile.writeAndDigest(partial, sink -> SafeTensors.write(sink, tensors, notes));
            long bytes = Files.size(partial);
            // Named by content: saving a step again never touches the file to which the old manifest refers.
            Path data = directory.resolve(name + "-" + digest.substring(0, 8) + ".safetensors");
            AtomicFile.moveInto(partial, data);
            Optional<List<Part>> written = parts.await();
            if (written.isEmpty()) {
                return Optional.empty();
            }
            String json = "{\"file\": " + Json.quoted(data.getFileName().toString()) + ", \"bytes\": " + bytes
                    + ", \"sha256\": \"" + digest + "\"" + toJson(written.get()) + "}\n";
            String replaced = readIfExists(manifest);
            AtomicFile.write(manifest, sink -> sink.write(ByteBuffer.wrap(json.getBytes(StandardCharsets.UTF_8))));
            delete(directory, replaced, json);
            return Optional.of(manifest);
        } catch (IOException e) {
            throw AtomicFile.failed(manifest, partial, e);
        } catch (RuntimeException | Error e) {
            AtomicFile.deleteQuietly(partial);
            throw e;
        }
    }

    private static String toJson(List<Part> parts) {
        return parts.isEmpty() ? "" : parts.stream().map(part -> "{\"file\": " + Json.quoted(part.file())
                + ", \"bytes\": " + part.bytes() + ", \"checksum\": " + Json.quoted(part.checksum()) + "}")
                .collect(Collectors.joining(",\n  ", ", \"parts\": [\n  ", "]"));
    }

    /** Deletes the files named by a manifest that was replaced, except those that the new manifest also names. */
    private static void delete(Path directory, String oldManifest, String newManifest) throws IOException {
        Matcher named = NAMED.matcher(oldManifest);
        while (named.find()) {
            if (!newManifest.contains(named.group())) {
                Files.deleteIfExists(directory.resolve(named.group(1)));
            }
        }
    }

    /**
     * Deletes all but the latest {@code keep} checkpoints of a directory, and the remains of failed saves. Files of the
     * latest step and of later steps stay even if no manifest names them, because another process may be about to write
     * one.
     *
     * @throws CheckpointException if a file cannot be deleted
     */
    public static void prune(Path directory, int keep) {
        prune(directory, keep, Long.MAX_VALUE);
    }

    /**
     * As {@link #prune(Path, int)}, but the checkpoint that was just saved stays in any case, as do files of later
     * steps. If an earlier run has left a checkpoint of a higher step, that one still counts as the latest; a warning
     * in the log says so.
     *
     * @param saved the step that was just saved
     * @throws CheckpointException if a file cannot be deleted
     */
    public static void prune(Path directory, int keep, long saved) {
        List<Path> manifests = manifests(directory);
        long highest = manifests.isEmpty() ? -1 : stepOf(manifests.getLast());
        if (saved < highest) {
            LOG.log(Level.WARNING, "{0}: step {1} was saved, but a run would resume from step {2}, which is there too; "
                    + "give each run a directory of its own", directory, Long.toString(saved), Long.toString(highest));
        }
        long latest = Math.min(saved, highest);
        StringBuilder keptManifests = new StringBuilder();
        try {
            for (int i = 0; i < manifests.size(); i++) {
                if (i < manifests.size() - keep && stepOf(manifests.get(i)) != saved) {
                    Files.deleteIfExists(manifests.get(i));
                } else {
                    keptManifests.append(readIfExists(manifests.get(i)));
                }
            }
            try (Stream<Path> files = Files.list(directory)) {
                for (Path file : files.toList()) {
                    Matcher name = DATA_OR_DRAFT.matcher(file.getFileName().toString());
                    if (name.matches() && Long.parseLong(name.group(1)) < latest
                            && keptManifests.indexOf(Json.quoted(name.group())) < 0) {
                        Files.deleteIfExists(file);
                    }
                }
            }
        } catch (IOException | UncheckedIOException e) {
            throw new CheckpointException(directory, "old checkpoints cannot be deleted: " + e, "check its permissions",
                    e);
        }
    }

    private static String readIfExists(Path manifest) throws IOException {
        try {
            return PlainFile.isOther(manifest) ? "" : Files.readString(manifest, StandardCharsets.ISO_8859_1);
        } catch (NoSuchFileException e) {
            return ""; // Another process prunes the directory concurrently.
        }
    }

    private static List<Path> manifests(Path directory) {
        if (!Files.isDirectory(directory)) {
            return List.of();
        }
        try (Stream<Path> files = Files.list(directory)) {
            return files.filter(f -> MANIFEST.matcher(f.getFileName().toString()).matches())
                    .sorted(Comparator.comparingLong(Checkpoint::stepOf)).toList();
        } catch (IOException | UncheckedIOException e) {
            // Its cause distinguishes a directory that cannot be read from a damaged checkpoint.
            throw new CheckpointException(directory, "cannot be read: " + e, "check its permissions",
                    e instanceof UncheckedIOException listing ? listing.getCause() : e);
        }
    }

    private static long stepOf(Path manifest) {
        Matcher matcher = MANIFEST.matcher(manifest.getFileName().toString());
        return matcher.matches() ? Long.parseLong(matcher.group(1)) : -1;
    }

    // ---- loading ----

    /**
     * Returns the checkpoint of the highest step in a directory, if there is one, after verifying its checksum. A run
     * may save and prune checkpoints meanwhile.
     *
     * @throws CheckpointException if it is damaged
     */
    public static Optional<Checkpoint> latest(Path directory) {
        List<Path> manifests = manifests(directory);
        while (!manifests.isEmpty()) {
            Path newest = manifests.getLast();
            String text = textOf(newest);
            try {
                return Optional.of(open(newest));
            } catch (CheckpointException e) {
                if (!isReplaced(newest, text)) {
                    throw e;
                }
                // Another thread or process has saved this step again, or a later one, and pruned this one.
                manifests = manifests(directory);
            }
        }
        return Optional.empty();
    }

    /**
     * Returns the intact checkpoint of the highest step in a directory, if there is any checkpoint. The manifests of
     * damaged checkpoints above it are renamed to {@code step-N.json.damaged}, with a warning in the log. The contents
     * of {@link #parts} are not verified. A run may save and prune checkpoints meanwhile.
     *
     * @throws CheckpointException if all are damaged, or one cannot be read for another reason; no file is renamed then
     */
    public static Optional<Checkpoint> latestIntact(Path directory) {
        SequencedMap<Path, Damage> damages = new LinkedHashMap<>();
        List<Path> manifests = manifests(directory);
        while (!manifests.isEmpty()) {
            for (Path manifest : manifests.reversed()) {
                String text = textOf(manifest);
                try {
                    Checkpoint found = open(manifest);
                    if (damages.entrySet().stream().anyMatch(Checkpoint::isReplaced)) {
                        break;
                    }
                    setAside(damages, found.step);
                    return Optional.of(found);
                } catch (CheckpointException e) {
                    if (e.getCause() instanceof IOException && !(e.getCause() instanceof NoSuchFileException
                            || e.getCause() instanceof CharacterCodingException)) {
                        throw e;
                    }
                    damages.put(manifest, new Damage(e, text));
                }
            }
            damages.entrySet().removeIf(Checkpoint::isReplaced);
            if (damages.size() == manifests.size()) {
                CheckpointException latest = damages.firstEntry().getValue().problem;
                throw new CheckpointException(directory, "has no intact checkpoint; the latest, " + latest.path() + ", "
                        + latest.problem(), "restore it, or start from the beginning", latest);
            }
            // Another thread or process has saved some again, or later ones, and pruned some.
            damages.clear();
            manifests = manifests(directory);
        }
        return Optional.empty();
    }

    /** What is wrong with a checkpoint, and the text of its manifest. */
    private record Damage(CheckpointException problem, String text) { }

    /** Returns the text of a manifest, or an empty one if it cannot be read or is none. */
    private static String textOf(Path manifest) {
        try {
            return PlainFile.isOther(manifest) || Files.size(manifest) > MAX_MANIFEST_BYTES ? ""
                    : Files.readString(manifest);
        } catch (IOException e) {
            return "";
        }
    }

    /** Returns whether a manifest that had this text is gone or has another one. */
    private static boolean isReplaced(Path manifest, String text) {
        return Files.notExists(manifest, LinkOption.NOFOLLOW_LINKS) || !textOf(manifest).equals(text);
    }

    private static boolean isReplaced(Map.Entry<Path, Damage> damaged) {
        return isReplaced(damaged.getKey(), damaged.getValue().text);
    }

    /** Renames manifests of damaged checkpoints, so that they do not count as the latest checkpoints. */
    private static void setAside(Map<Path, Damage> damages, long intact) {
        damages.forEach((manifest, damage) -> {
            try {
                Files.move(manifest, manifest.resolveSibling(manifest.getFileName() + ".damaged"),
                        StandardCopyOption.REPLACE_EXISTING);
                LOG.log(Level.WARNING, "{0}; resuming from step {1} instead", damage.problem.getMessage(),
                        Long.toString(intact));
            } catch (NoSuchFileException e) {
                // Another thread or process has pruned or renamed it.
            } catch (IOException e) {
                throw new CheckpointException(manifest, "is damaged and cannot be renamed: " + e,
                        "check the permissions of its directory", e);
            }
        });
    }

    /**
     * Opens a checkpoint by its manifest and verifies its checksum.
     *
     * @throws CheckpointException if manifest or data are missing or damaged
     */
    public static Checkpoint open(Path manifest) {
        try {
            if (stepOf(manifest) < 0 || Files.size(manifest) > MAX_MANIFEST_BYTES) {
                throw new CheckpointException(manifest, "is not the manifest of a checkpoint",
                        "pass the path of a step-N.json", null);
            }
            if (PlainFile.isOther(manifest)) {
                throw new CheckpointException(manifest, "is " + PlainFile.OTHER, PlainFile.REMEDY, null);
            }
            Map<String, Object> fields = Json.object(Files.readString(manifest));
            if (!(fields.get("file") instanceof String file) || !(fields.get("bytes") instanceof Long bytes)
                    || !(fields.get("sha256") instanceof String sha256) || file.contains("/") || file.contains("\\")) {
                throw new CheckpointException(manifest, "must contain the fields file, bytes and sha256", REMEDY, null);
            }
            Path data = manifest.resolveSibling(file);
            if (Files.size(data) != bytes) {
                throw new CheckpointException(data, "has " + Files.size(data) + " bytes, the manifest says " + bytes,
                        REMEDY, null);
            }
            String found = digest(data);
            if (!found.equals(sha256)) {
                throw new CheckpointException(data, "has the SHA-256 " + found + ", the manifest says " + sha256,
                        REMEDY, null);
            }
            return new Checkpoint(manifest, data, stepOf(manifest), parts(manifest, fields.get("parts")));
        } catch (Json.JsonException e) {
            throw new CheckpointException(manifest, "is malformed: " + e.getMessage(), REMEDY, e);
        } catch (CharacterCodingException e) {
            throw new CheckpointException(manifest, "is malformed: it is not UTF-8", REMEDY, e);
        } catch (IOException e) {
            throw new CheckpointException(manifest, "cannot be read: " + e, REMEDY, e);
        }
    }

    /**
     * Reads the list of parts and checks that each exists with the right length. The reader of a part verifies its
     * content.
     */
    private static List<Part> parts(Path manifest, @Nullable Object listed) throws IOException {
        List<Part> parts = new ArrayList<>();
        for (Object each : listed instanceof List<?> list ? list : List.of()) {
            if (!(each instanceof Map<?, ?> fields && fields.get("file") instanceof String file
                    && fields.get("bytes") instanceof Long bytes && fields.get("checksum") instanceof String checksum
                    && file.matches(Part.NAME))) {
                throw new CheckpointException(manifest, "must contain file, bytes and checksum of each part", REMEDY,
                        null);
            }
            Path path = manifest.resolveSibling(file);
            if (!Files.exists(path) || Files.size(path) != bytes) {
                throw new CheckpointException(path, Files.exists(path) ? "has " + Files.size(path) + " bytes, the "
                        + "manifest says " + bytes : "is missing", "restore it, or " + REMEDY, null);
            }
            parts.add(new Part(file, bytes, checksum));
        }
        return parts;
    }

    private static String digest(Path file) throws IOException {
        Sha256 checksum = new Sha256();
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            ByteBuffer chunk = ByteBuffer.allocate(1 << 20);
            while (channel.read(chunk) >= 0) {
                checksum.add(chunk.flip());
                chunk.clear();
            }
        }
        return checksum.finish();
    }

    /** Returns the path of the manifest. */
    public Path path() {
        return manifest;
    }

    /** Returns the step at which the checkpoint was saved. */
    public long step() {
        return step;
    }

    /**
     * Returns the files that other processes wrote, by number. Each exists and has its length; the reader of a part
     * must verify its checksum.
     */
    public List<Part> parts() {
        return parts;
    }

    /** Returns the texts that were saved with the tensors. */
    public Map<String, String> notes() {
        try (SafeTensors tensors = SafeTensors.open(data)) {
            return new LinkedHashMap<>(tensors.metadata());
        }
    }

    /**
     * Reads all tensors into the parameters with the same names.
     *
     * @throws CheckpointException if names, types or shapes differ; then no parameter is changed
     */
    public void into(Map<String, Parameter> parameters) {
        into(parameters, name -> false);
    }

    /**
     * Reads tensors into the parameters with the same names.
     *
     * @param ignorable decides whether a tensor for which there is no parameter is ignored; otherwise it is an error
     * @throws CheckpointException if names, types or shapes differ; then no parameter is changed
     */
    public void into(Map<String, Parameter> parameters, Predicate<String> ignorable) {
        try (SafeTensors tensors = SafeTensors.open(data)) {
            tensors.into(parameters, ignorable);
        }
    }

    /** Returns whether the checkpoint contains a tensor with this name. */
    public boolean has(String name) {
        try (SafeTensors tensors = SafeTensors.open(data)) {
            return tensors.names().contains(name);
        }
    }
}
