import { CHECK_CHARS } from "../../../core/journal/save-digest.js";

/**
 * The tables and functions of format 1. ARCHITECTURE.md, "Format versions", says how a format
 * changes once it is released.
 *
 * Every transaction sets its own search path and its tenant, both until it ends: nothing stays
 * behind on a connection.
 *
 * Row level security is on for all tables, and forced: it holds for their owner too. A transaction
 * says whose rows it means; one that does not say sees none. (Superusers are beyond it. The
 * statements name the tenant besides, so that they see their own as well.)
 *
 * Sections of a save, and blobs, are bytes to the database. They are not compressed, and stay in
 * the row as far as a page allows: what one save writes is then one row.
 */
const SECURED = [
  "session",
  "tag",
  "buried",
  "branch",
  "cut_branch",
  "save",
  "blob",
  "ref",
  "inbox",
  "doc",
  "pin",
] as const;

const secure = (table: string): string => `
  ALTER TABLE ${table} ENABLE ROW LEVEL SECURITY;
  ALTER TABLE ${table} FORCE ROW LEVEL SECURITY;
  CREATE POLICY tenant ON ${table} USING (tenant = current_setting('holdfast.tenant', true))
    WITH CHECK (tenant = current_setting('holdfast.tenant', true));`;

const tenant = `tenant text COLLATE "C" NOT NULL DEFAULT current_setting('holdfast.tenant')`;

/** The format that this version reads and writes. */
export const FORMAT = 1;

/** `schema` is the quoted name of the schema, which is also the search path while this runs. */
export const schemaText = (schema: string): string => `
  CREATE TABLE session (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ${tenant},
    id text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    agent text COLLATE "C",
    branch text COLLATE "C" NOT NULL,
    head text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL,
    until bigint NOT NULL,
    lease text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    archived integer NOT NULL,
    tags text COLLATE "C" NOT NULL,
    label text COLLATE "C" NOT NULL,
    due bigint,
    wake bigint,
    UNIQUE (tenant, id)
  ) WITH (fillfactor = 80);
  CREATE INDEX session_of_tenant ON session (tenant, no);
  CREATE INDEX session_by_status ON session (tenant, status, no);
  CREATE INDEX session_by_agent ON session (tenant, agent, no) WHERE agent IS NOT NULL;
  CREATE INDEX session_archived ON session (tenant, no) WHERE archived = 1;
  -- due is the time of the head; wake is the first of it and of the times of the inbox messages that wait. A claim reads due sessions
  -- along this index in the order it gives them, and passes neither ended sessions nor the messages of other agents.
  CREATE INDEX session_by_wake ON session (tenant, agent, wake, no) WHERE wake IS NOT NULL;

  CREATE TABLE tag (${tenant}, tag text COLLATE "C" NOT NULL, session bigint NOT NULL, PRIMARY KEY (tenant, tag, session));
  CREATE INDEX tag_by_session ON tag (session);

  CREATE TABLE buried (${tenant}, id text COLLATE "C" NOT NULL, epoch bigint NOT NULL, PRIMARY KEY (tenant, id));

  CREATE TABLE branch (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ${tenant},
    id text COLLATE "C" NOT NULL,
    session bigint,
    fork_branch text COLLATE "C",
    fork_seq bigint NOT NULL,
    body text COLLATE "C" NOT NULL,
    UNIQUE (tenant, id)
  );
  CREATE INDEX branch_of_tenant ON branch (tenant, no);
  CREATE INDEX branch_by_session ON branch (session, no);
  CREATE INDEX branch_by_fork_point ON branch (tenant, fork_branch, no) WHERE fork_branch IS NOT NULL;

  CREATE TABLE cut_branch (${tenant}, id text COLLATE "C" NOT NULL, PRIMARY KEY (tenant, id));

  CREATE TABLE save (
    branch bigint NOT NULL,
    seq bigint NOT NULL,
    ${tenant},
    head text COLLATE "C" NOT NULL,
    note text COLLATE "C",
    mark bytea,
    items bytea,
    state bytea,
    -- The transaction that a save came with, so that an index for search finds new saves and passes over no open transaction. It is a
    -- number like others: below a policy, Postgres searches an index only by comparisons of numbers and texts.
    tx bigint DEFAULT pg_current_xact_id()::text::bigint,
    PRIMARY KEY (branch, seq)
  ) WITH (toast_tuple_target = 8160);
  CREATE INDEX save_by_tx ON save USING brin (tx) WITH (autosummarize = on);
  ALTER TABLE save ALTER COLUMN mark SET STORAGE EXTERNAL, ALTER COLUMN items SET STORAGE EXTERNAL, ALTER COLUMN state SET STORAGE EXTERNAL;

  CREATE TABLE blob (${tenant}, digest text COLLATE "C" NOT NULL, bytes bytea NOT NULL, PRIMARY KEY (tenant, digest));
  ALTER TABLE blob ALTER COLUMN bytes SET STORAGE EXTERNAL;
  CREATE TABLE ref (branch bigint NOT NULL, seq bigint NOT NULL, ${tenant}, digest text COLLATE "C" NOT NULL, PRIMARY KEY (branch, seq, digest));
  CREATE INDEX ref_by_digest ON ref (digest);

  CREATE TABLE inbox (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ${tenant},
    session bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    body text COLLATE "C" NOT NULL,
    drained integer NOT NULL,
    due bigint NOT NULL,
    UNIQUE (session, id)
  );
  CREATE INDEX mail_waiting ON inbox (session, no) WHERE drained = 0;
  CREATE INDEX mail_by_due ON inbox (session, due) WHERE drained = 0;

  -- Documents beside the sessions, and the places that they keep.
  CREATE TABLE doc (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ${tenant},
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    whose text COLLATE "C",
    version bigint NOT NULL,
    text text COLLATE "C" NOT NULL,
    body text COLLATE "C",
    UNIQUE (tenant, kind, id)
  );
  CREATE INDEX doc_by_kind ON doc (tenant, kind, no);
  CREATE INDEX doc_by_whose ON doc (tenant, kind, whose, no) WHERE whose IS NOT NULL;
  CREATE TABLE pin (${tenant}, branch text COLLATE "C" NOT NULL, seq bigint NOT NULL, doc bigint NOT NULL, PRIMARY KEY (tenant, branch, seq, doc));
  CREATE INDEX pin_by_doc ON pin (doc);

  ${SECURED.map(secure).join("\n")}

  -- Says whose rows the transaction means, and that its commit is to be durable whatever the server's default is.
  -- It waits for locks no longer than it is told, and does not keep its own for a client that has fallen silent. All reads go along an
  -- index, in its order: a planner that knows no figures of a young table yet would gather a whole branch, and sort it, for a few of its rows.
  CREATE FUNCTION begin_as(name text, lock_ms text) RETURNS void LANGUAGE plpgsql AS $$
  BEGIN
    PERFORM set_config('search_path', '${schema.replaceAll("'", "''")}, pg_temp', true), set_config('holdfast.tenant', name, true),
      set_config('lock_timeout', lock_ms, true), set_config('idle_in_transaction_session_timeout', '10000', true),
      set_config('enable_bitmapscan', 'off', true);
    IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'on', true); END IF;
  END $$;

  -- A save and nothing else, if the session's epoch and the branch's end are as expected. Answers ok, known (it was there already), or why
  -- not. The lock keeps out a grant of the lease: whoever is granted it must find what was saved before, and nothing may come after.
  -- Expressions are assigned, and not performed: plpgsql evaluates them without starting a query for each.
  CREATE FUNCTION save(
    of_tenant text, session_lock bigint, of_session text, of_epoch bigint, on_branch text, behind bigint, its_seq bigint, its_head text,
    its_mark bytea, its_items bytea, its_state bytea, lock_ms text, again boolean
  ) RETURNS text LANGUAGE plpgsql AS $$
  DECLARE
    ignored boolean;
    found_epoch bigint;
    branch_no bigint;
    branch_end bigint;
  BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
      RAISE 'a save needs the isolation level read committed' USING ERRCODE = '0A000';
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN ignored := set_config('synchronous_commit', 'on', true) IS NULL; END IF;
    -- Plans are kept for as long as a connection lasts, and what is right for an empty table would stay.
    ignored := set_config('enable_seqscan', 'off', true) IS NULL OR set_config('enable_bitmapscan', 'off', true) IS NULL
      OR set_config('holdfast.tenant', of_tenant, true) IS NULL OR set_config('lock_timeout', lock_ms, true) IS NULL
      OR pg_advisory_xact_lock(session_lock) IS NULL;
    SELECT s.epoch, l.no, coalesce((SELECT v.seq FROM ${schema}.save v WHERE v.branch = l.no ORDER BY v.seq DESC LIMIT 1), l.fork_seq)
      INTO found_epoch, branch_no, branch_end
      FROM ${schema}.session s LEFT JOIN ${schema}.branch l ON l.tenant = of_tenant AND l.id = on_branch
      WHERE s.tenant = of_tenant AND s.id = of_session;
    -- Said again: it may have been done, and another holder come since.
    IF again OR (found_epoch = of_epoch AND branch_end <> behind) THEN
      IF EXISTS (
        SELECT 1 FROM ${schema}.branch l JOIN ${schema}.save v ON v.branch = l.no WHERE l.tenant = of_tenant AND l.id = on_branch AND v.seq = its_seq
          AND left(split_part(v.head, ' ', 8), ${CHECK_CHARS}) = left(split_part(its_head, ' ', 8), ${CHECK_CHARS})
      ) THEN RETURN 'known'; END IF;
    END IF;
    IF found_epoch IS NULL THEN RETURN 'absent'; END IF;
    IF found_epoch <> of_epoch THEN RETURN 'epoch'; END IF;
    IF branch_no IS NULL OR branch_end <> behind THEN RETURN 'tail'; END IF;
    INSERT INTO ${schema}.save (branch, seq, tenant, head, mark, items, state)
      VALUES (branch_no, its_seq, of_tenant, its_head, its_mark, its_items, its_state);
    RETURN 'ok';
  END $$;

  -- The same for a save that refers to blobs.
  CREATE FUNCTION save_with_blobs(
    of_tenant text, session_lock bigint, of_session text, of_epoch bigint, on_branch text, behind bigint, its_seq bigint, its_head text,
    its_mark bytea, its_items bytea, its_state bytea, lock_ms text, again boolean, blob_lock bigint, refs text[], digests text[], bodies bytea[]
  ) RETURNS text LANGUAGE plpgsql AS $$
  DECLARE
    said text := ${schema}.save(
      of_tenant, session_lock, of_session, of_epoch, on_branch, behind, its_seq, its_head, its_mark, its_items, its_state, lock_ms, again);
  BEGIN
    IF said <> 'ok' THEN RETURN said; END IF;
    PERFORM pg_advisory_xact_lock_shared(blob_lock);
    INSERT INTO ${schema}.blob (tenant, digest, bytes)
      SELECT of_tenant, b.digest, b.bytes FROM unnest(digests, bodies) AS b (digest, bytes) ON CONFLICT DO NOTHING;
    INSERT INTO ${schema}.ref (branch, seq, tenant, digest)
      SELECT l.no, its_seq, of_tenant, r.digest FROM ${schema}.branch l, unnest(refs) AS r (digest)
      WHERE l.tenant = of_tenant AND l.id = on_branch ON CONFLICT DO NOTHING;
    RETURN 'ok';
  END $$;

  -- Search. The words of a passage stand in a table of their own, whose policy says what is looked for. A condition on them outside of the
  -- policy would be tried on one row after another.
  CREATE TABLE passage (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ${tenant},
    owner bigint NOT NULL,
    seq bigint NOT NULL,
    part integer NOT NULL,
    role integer NOT NULL,
    at bigint NOT NULL,
    UNIQUE (tenant, owner, seq, part)
  );
  CREATE TABLE passage_words (no bigint PRIMARY KEY REFERENCES passage ON DELETE CASCADE, ${tenant}, words tsvector NOT NULL);
  CREATE INDEX passage_by_words ON passage_words USING gin (words);
  CREATE TABLE passage_state (
    ${tenant} PRIMARY KEY,
    turn bigint NOT NULL,
    -- How far it has gone over sessions; -1 where that is done.
    session bigint NOT NULL,
    -- 0 while it goes over all saves for the first time, then 1: from which transaction on they are read, and which was the oldest that
    -- was open when this round began; and up to where they are read in it.
    is_new integer NOT NULL,
    tx bigint NOT NULL,
    oldest bigint NOT NULL,
    at_tx bigint NOT NULL,
    at_branch bigint NOT NULL,
    at_seq bigint NOT NULL
  );
  ${["passage", "passage_state"].map(secure).join("\n")}
  ALTER TABLE passage_words ENABLE ROW LEVEL SECURITY;
  ALTER TABLE passage_words FORCE ROW LEVEL SECURITY;
  CREATE POLICY adds ON passage_words FOR INSERT WITH CHECK (tenant = current_setting('holdfast.tenant', true));
  CREATE POLICY finds ON passage_words FOR SELECT
    USING (tenant = current_setting('holdfast.tenant', true) AND words @@ current_setting('holdfast.words', true)::tsquery);

  -- What an index must forget: the texts of records of a branch. Or what it must read again: the title of a session. Written only if there is
  -- such an index.
  CREATE TABLE unindexed (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ${tenant},
    branch bigint,
    first bigint,
    last bigint,
    ceiling bigint,
    session bigint
  );
  CREATE INDEX unindexed_by_tenant ON unindexed (tenant, no);
  ${secure("unindexed")}
`;
