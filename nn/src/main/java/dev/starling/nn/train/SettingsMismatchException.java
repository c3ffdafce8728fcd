package dev.starling.nn.train;

/** Ranks have different settings, so none of them trains. The message names each setting, its values and the ranks. */
public final class SettingsMismatchException extends RunEndedException {
    private static final long serialVersionUID = 1L;

    private final String setting;

    /**
     * Creates an exception.
     *
     * @param setting name of the first setting that differs
     * @param rank the first rank whose value differs from that of most ranks
     */
    public SettingsMismatchException(String setting, int rank, String message) {
        super(rank, message, null);
        this.setting = setting;
    }

    /** Returns the name of the first setting that differs. */
    public String setting() {
        return setting;
    }
}
