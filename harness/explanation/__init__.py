"""Why a scenario fails: cause, sentence, story."""
